#include "core/train/profile.h"

#include <algorithm>
#include <array>
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
          totals_from(json.at("layers"))};
}

std::string json_text(std::string_view text) { return Json(text).dump(); }

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
  return {{"first_step", summary.first_step},
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
}

std::string trace_text(std::string_view run, const ProfileSummary& summary,
                       std::span<const ProfiledStep> steps, std::span<const KernelTime> kernels,
                       std::span<const CopyTime> copies) {
  // The events come first, since Perfetto's importer stops at a key that it does not know.
  std::string text = "{\"traceEvents\":[\n";
  // Steps and each part have a row of their own.
  const auto name_row = [&](size_t row, std::string_view name) {
    text += fmt::format(
        "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{0},\"args\":{{\"name\":{1}}}}},"
        "\n"
        "{{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":1,\"tid\":{0},"
        "\"args\":{{\"sort_index\":{0}}}}},\n",
        row, json_text(name));
  };
  text += fmt::format(
      "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{{\"name\":{}}}}},\n",
      json_text(fmt::format("mstrain {}", run)));
  name_row(0, "steps");
  for (size_t i = 0; i < kParts.size(); ++i) {
    name_row(i + 1, kParts[i]);
  }
  if (!copies.empty()) {
    name_row(kParts.size() + 1, "copies");
  }
  int64_t origin = steps.front().begin;
  for (const CopyTime& copy : copies) {
    origin = std::min(origin, copy.begin);
  }
  const auto microseconds = [](int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  };
  const auto event = [&](const std::string& name, std::string_view category, size_t row,
                         int64_t begin, int64_t end, const std::string& args) {
    text += fmt::format(
        "{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{},\"dur\":{},"
        "\"args\":{{{}}}}}",
        json_text(name), category, row, microseconds(begin - origin), microseconds(end - begin),
        args);
  };
  size_t next = 0;
  for (const ProfiledStep& step : steps) {
    text += next == 0 && &step == &steps.front() ? "" : ",\n";
    event(fmt::format("step {}", step.step), "step", 0, step.begin, step.end,
          fmt::format("\"kernels\":{}", step.kernels - next));
    for (; next < step.kernels; ++next) {
      const KernelTime& kernel = kernels[next];
      const std::string_view part = part_of(kernel);
      const auto row =
          static_cast<size_t>(std::find(kParts.begin(), kParts.end(), part) - kParts.begin()) + 1;
      const double giga = 1e9 * std::max(seconds_of(kernel), 1e-9);
      text += ",\n";
      event(display_name(kernel), part, row, kernel.begin, kernel.end,
            fmt::format("\"FLOPs\":{:.0f},\"bytes\":{:.0f},\"GFLOP/s\":{:.4g},\"GB/s\":{:.4g}",
                        kernel.flops, kernel.bytes, kernel.flops / giga, kernel.bytes / giga));
    }
  }
  for (const CopyTime& copy : copies) {
    const auto bytes = static_cast<double>(copy.bytes);
    text += ",\n";
    event(copy.to_device ? "to the device" : "to the host", "copy", kParts.size() + 1, copy.begin,
          copy.end,
          fmt::format("\"bytes\":{},\"GB/s\":{:.4g}", copy.bytes,
                      bytes / std::max(static_cast<double>(copy.end - copy.begin), 1.0)));
  }
  return text + "\n],\n\"otherData\":" + to_json(summary).dump() + "}\n";
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
