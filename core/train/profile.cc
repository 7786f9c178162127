#include "core/train/profile.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/base/log.h"

namespace mstrain {
namespace {

constexpr std::array<std::string_view, 4> kParts{"forward", "backward", "optimizer", "other"};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "h.3.mlp" is "h.*.mlp": all layers of a kind are one.
std::string layer_kind(std::string_view scope) {
  std::string out;
  for (size_t begin = 0; begin <= scope.size();) {
    const size_t end = std::min(scope.find('.', begin), scope.size());
    const std::string_view part = scope.substr(begin, end - begin);
    out += begin == 0 ? "" : ".";
    out += is_number(part) ? "*" : part;
    begin = end + 1;
  }
  return out.empty() ? "(no layer)" : out;
}

double seconds_of(const KernelTime& kernel) {
  return static_cast<double>(kernel.end - kernel.begin) / 1e9;
}

using Totals = std::map<std::string, ProfileTotal, std::less<>>;

void add(Totals& totals, std::string_view name, const KernelTime& kernel) {
  auto found = totals.find(name);
  if (found == totals.end()) {
    found = totals.emplace(name, ProfileTotal{std::string(name)}).first;
  }
  ProfileTotal& total = found->second;
  total.calls += 1;
  total.seconds += seconds_of(kernel);
  total.flops += kernel.flops;
  total.bytes += kernel.bytes;
}

// Of a mean step.
std::vector<ProfileTotal> longest_first(const Totals& totals, double steps) {
  std::vector<ProfileTotal> out;
  for (const auto& [name, total] : totals) {
    out.push_back({name, total.calls / steps, total.seconds / steps, total.flops / steps,
                   total.bytes / steps});
  }
  std::stable_sort(out.begin(), out.end(), [](const ProfileTotal& a, const ProfileTotal& b) {
    return a.seconds > b.seconds;
  });
  return out;
}

OrderedJson to_json(const std::vector<ProfileTotal>& totals) {
  OrderedJson out = OrderedJson::array();
  for (const ProfileTotal& total : totals) {
    out.push_back({{"name", total.name},
                   {"calls", total.calls},
                   {"seconds", total.seconds},
                   {"flops", total.flops},
                   {"bytes", total.bytes}});
  }
  return out;
}

std::vector<ProfileTotal> totals_from(const Json& json) {
  std::vector<ProfileTotal> out;
  for (const Json& item : json) {
    out.push_back({item.at("name").get<std::string>(), item.at("calls").get<double>(),
                   item.at("seconds").get<double>(), item.at("flops").get<double>(),
                   item.at("bytes").get<double>()});
  }
  return out;
}

OrderedJson to_json(const std::vector<RankTotal>& ranks) {
  OrderedJson out = OrderedJson::array();
  for (const RankTotal& rank : ranks) {
    out.push_back({{"products", rank.products},
                   {"others", rank.others},
                   {"exchanges", rank.exchanges},
                   {"waiting", rank.waiting},
                   {"bubbles", rank.bubbles},
                   {"hidden", rank.hidden}});
  }
  return out;
}

std::vector<RankTotal> ranks_from(const Json& json) {
  std::vector<RankTotal> out;
  for (const Json& item : json) {
    out.push_back({item.at("products").get<double>(), item.at("others").get<double>(),
                   item.at("exchanges").get<double>(), item.at("waiting").get<double>(),
                   item.value("bubbles", 0.0), item.at("hidden").get<double>()});
  }
  return out;
}

std::optional<Timeline> timeline_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? std::nullopt : std::optional(timeline_from(*found));
}

ProfileSummary summary_from(const Json& json) {
  const auto integer = [](const Json& value) {
    return static_cast<int64_t>(value.get_ref<const uint64_t&>());
  };
  const Json& limits = json.at("limits");
  return {integer(json.at("first_step")),
          integer(json.at("steps")),
          integer(json.at("threads")),
          json.at("step_seconds").get<double>(),
          {limits.at("flops_per_second").get<double>(), limits.at("bytes_per_second").get<double>(),
           integer(limits.at("product_size")), integer(limits.at("copied_bytes"))},
          totals_from(json.at("parts")),
          totals_from(json.at("operations")),
          totals_from(json.at("layers")),
          ranks_from(json.value("ranks", Json::array())),
          timeline_in(json, "planned"),
          timeline_in(json, "measured")};
}

std::string json_text(std::string_view text) { return Json(text).dump(); }

// Events, as the file lists them.
class TraceFile {
 public:
  explicit TraceFile(int64_t origin) : origin_(origin) {}

  // A process: steps, each part, copies and what a pipeline's schedule names have a row of their own.
  void add(const RankRecord& record, size_t rank, const std::string& name) {
    process_ = rank + 1;
    line(R"({{"name":"process_name","ph":"M","pid":{0},"tid":0,"args":{{"name":{1}}}}})", process_,
         json_text(name));
    line(
        R"({{"name":"process_sort_index","ph":"M","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})",
        process_);
    name_row(kStepsRow, "steps");
    for (size_t i = 0; i < kParts.size(); ++i) {
      name_row(i + 1, kParts[i]);
    }
    if (!record.copies.empty()) {
      name_row(kCopiesRow, "copies");
    }
    if (!record.actions.empty()) {
      name_row(kActionsRow, "schedule");
    }
    size_t next = 0;
    for (const ProfiledStep& step : record.steps) {
      event(fmt::format("step {}", step.step), "step", kStepsRow, step.begin, step.end,
            fmt::format("\"kernels\":{}", step.kernels - next));
      for (; next < step.kernels; ++next) {
        add_kernel(record.kernels[next]);
      }
    }
    for (const ActionTime& action : record.actions) {
      event(to_string(Action{0, action.work, action.chunk, action.micro_batch}), "schedule",
            kActionsRow, action.begin, action.end,
            fmt::format("\"waited\":{}", microseconds(action.begin - action.asked)));
    }
    for (const CopyTime& copy : record.copies) {
      const auto bytes = static_cast<double>(copy.bytes);
      event(copy.to_device ? "to the device" : "to the host", "copy", kCopiesRow, copy.begin,
            copy.end,
            fmt::format("\"bytes\":{},\"GB/s\":{:.4g}", copy.bytes,
                        bytes / std::max(static_cast<double>(copy.end - copy.begin), 1.0)));
    }
  }

  // The events come first, since Perfetto's importer stops at a key that it does not know.
  std::string text(const OrderedJson& summary) const {
    return "{\"traceEvents\":[\n" + events_ + "\n],\n\"otherData\":" + summary.dump() + "}\n";
  }

 private:
  static constexpr size_t kStepsRow = 0;
  static constexpr size_t kCopiesRow = kParts.size() + 1;
  static constexpr size_t kActionsRow = kParts.size() + 2;

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    events_ += events_.empty() ? "" : ",\n";
    events_ += fmt::format(format, std::forward<Args>(args)...);
  }
  void name_row(size_t row, std::string_view name) {
    line(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", process_,
         row, json_text(name));
    line(
        R"({{"name":"thread_sort_index","ph":"M","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
        process_, row);
  }
  static std::string microseconds(int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  }
  void event(const std::string& name, std::string_view category, size_t row, int64_t begin,
             int64_t end, const std::string& args) {
    line(R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
         json_text(name), category, process_, row, microseconds(begin - origin_),
         microseconds(end - begin), args);
  }
  void add_kernel(const KernelTime& kernel) {
    const std::string_view part = part_of(kernel);
    const auto row =
        static_cast<size_t>(std::find(kParts.begin(), kParts.end(), part) - kParts.begin()) + 1;
    const double giga = 1e9 * std::max(seconds_of(kernel), 1e-9);
    event(display_name(kernel), part, row, kernel.begin, kernel.end,
          fmt::format("\"FLOPs\":{:.0f},\"bytes\":{:.0f},\"GFLOP/s\":{:.4g},\"GB/s\":{:.4g}",
                      kernel.flops, kernel.bytes, kernel.flops / giga, kernel.bytes / giga));
  }

  int64_t origin_;
  size_t process_ = 1;
  std::string events_;
};

}  // namespace

std::string_view part_of(const KernelTime& kernel) {
  const bool other = kernel.part == StepPart::kForward && kernel.scope.empty();
  return other ? kParts[3] : kParts[static_cast<size_t>(kernel.part)];
}

std::string display_name(const KernelTime& kernel) {
  return kernel.scope.empty() ? std::string(kernel.op)
                              : fmt::format("{} {}", kernel.scope, kernel.op);
}

ProfileSummary summarise(std::span<const ProfiledStep> steps, std::span<const KernelTime> kernels,
                         int64_t threads, const MachineLimits& limits) {
  check(!steps.empty(), "a profile of no steps");
  const auto count = static_cast<double>(steps.size());
  ProfileSummary out;
  out.first_step = steps.front().step;
  out.steps = static_cast<int64_t>(steps.size());
  out.threads = threads;
  out.limits = limits;
  for (const ProfiledStep& step : steps) {
    out.step_seconds += static_cast<double>(step.end - step.begin) / 1e9 / count;
  }
  Totals parts;
  Totals operations;
  Totals layers;
  for (const KernelTime& kernel : kernels) {
    add(parts, part_of(kernel), kernel);
    add(operations, kernel.op, kernel);
    add(layers, layer_kind(kernel.scope), kernel);
  }
  out.parts = longest_first(parts, count);
  out.operations = longest_first(operations, count);
  out.layers = longest_first(layers, count);
  return out;
}

OrderedJson to_json(const ProfileSummary& summary) {
  const MachineLimits& limits = summary.limits;
  OrderedJson out{{"first_step", summary.first_step},
                  {"steps", summary.steps},
                  {"threads", summary.threads},
                  {"step_seconds", summary.step_seconds},
                  {"limits",
                   {{"flops_per_second", limits.flops_per_second},
                    {"bytes_per_second", limits.bytes_per_second},
                    {"product_size", limits.product_size},
                    {"copied_bytes", limits.copied_bytes}}},
                  {"parts", to_json(summary.parts)},
                  {"operations", to_json(summary.operations)},
                  {"layers", to_json(summary.layers)}};
  if (!summary.ranks.empty()) {
    out["ranks"] = to_json(summary.ranks);
  }
  if (summary.planned) {
    out["planned"] = to_json(*summary.planned);
  }
  if (summary.measured) {
    out["measured"] = to_json(*summary.measured);
  }
  return out;
}

std::string trace_text(std::string_view run, const ProfileSummary& summary,
                       std::span<const RankRecord> ranks) {
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const RankRecord& record : ranks) {
    origin = std::min(origin, record.steps.front().begin);
    for (const CopyTime& copy : record.copies) {
      origin = std::min(origin, copy.begin);
    }
  }
  TraceFile trace(origin);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    trace.add(ranks[rank], rank,
              ranks.size() == 1 ? fmt::format("mstrain {}", run)
                                : fmt::format("rank {} of {}", rank, run));
  }
  return trace.text(to_json(summary));
}

std::optional<ProfileSummary> read_profile(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) {
    return std::nullopt;
  }
  const std::unique_ptr<MappedFile> file = files.map(path);
  // Events may be many, and are not looked at.
  const auto keep = [](int depth, Json::parse_event_t event, Json& parsed) {
    return event != Json::parse_event_t::key || depth != 1 || parsed != "traceEvents";
  };
  std::string reason;
  try {
    return summary_from(Json::parse(as_text(file->bytes()), keep).at("otherData"));
  } catch (const Json::exception& error) {
    reason = error.what();
  }
  log_warning("{}: is left out of the report, since it is no profile that mstrain wrote: {}", path,
              reason);
  return std::nullopt;
}

}  // namespace mstrain
