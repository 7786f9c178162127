#include "core/train/rank_profile.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/train/rank_talk.h"

namespace mstrain {
namespace {

constexpr const char* kWhat = "profile";

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Texts stand in a list of their own, as most of them come again and again.
std::string text_of(const RankRecord& record, int64_t now) {
  Json steps = Json::array();
  for (const ProfiledStep& step : record.steps) {
    steps.push_back({step.step, step.begin, step.end, step.kernels});
  }
  Json texts = Json::array();
  std::map<std::string_view, size_t> places;
  const auto place = [&](std::string_view text) {
    const auto [found, is_new] = places.emplace(text, places.size());
    if (is_new) {
      texts.push_back(text);
    }
    return found->second;
  };
  Json kernels = Json::array();
  for (const KernelTime& kernel : record.kernels) {
    kernels.push_back({place(kernel.op), place(kernel.scope), place(kernel.axis), kernel.part,
                       kernel.half, kernel.begin, kernel.end, kernel.done, kernel.flops,
                       kernel.bytes});
  }
  Json copies = Json::array();
  for (const CopyTime& copy : record.copies) {
    copies.push_back({copy.begin, copy.end, copy.bytes, copy.to_device});
  }
  return Json{{"host", host_name()},           {"now", now},
              {"texts", std::move(texts)},     {"steps", std::move(steps)},
              {"kernels", std::move(kernels)}, {"copies", std::move(copies)}}
      .dump();
}

// `now`: this rank's clock when the others' were read. Ranks of one machine have one clock.
RankRecord record_of(const std::string& text, int64_t now) {
  const auto json = std::make_shared<const Json>(Json::parse(text));
  const int64_t later = json->at("host") == host_name() ? 0 : now - json->at("now").get<int64_t>();
  const auto time = [&](const Json& value) { return value.get<int64_t>() + later; };
  const Json& texts = json->at("texts");
  const auto text_at = [&](const Json& place) {
    return std::string_view(texts.at(place.get<size_t>()).get_ref<const std::string&>());
  };
  RankRecord record;
  for (const Json& step : json->at("steps")) {
    record.steps.push_back(
        {step.at(0).get<int64_t>(), time(step.at(1)), time(step.at(2)), step.at(3).get<size_t>()});
  }
  for (const Json& kernel : json->at("kernels")) {
    const auto done = kernel.at(7).get<int64_t>();
    record.kernels.push_back({text_at(kernel.at(0)), text_at(kernel.at(1)),
                              kernel.at(3).get<StepPart>(), time(kernel.at(5)), time(kernel.at(6)),
                              kernel.at(8).get<double>(), kernel.at(9).get<double>(),
                              text_at(kernel.at(2)), kernel.at(4).get<KernelTime::Half>(),
                              done == 0 ? 0 : done + later});
  }
  for (const Json& copy : json->at("copies")) {
    record.copies.push_back(
        {time(copy.at(0)), time(copy.at(1)), copy.at(2).get<int64_t>(), copy.at(3).get<bool>()});
  }
  record.texts = json;
  return record;
}

bool is_product(std::string_view op) {
  constexpr std::string_view kProducts[] = {"dot_general", "attention", "linear_cross_entropy",
                                            "conv"};
  return std::any_of(std::begin(kProducts), std::end(kProducts),
                     [&](std::string_view product) { return op.starts_with(product); });
}

// Ranks that differ along the axis alone.
using Group = std::pair<std::string_view, int64_t>;
Group group_of(const Mesh& mesh, int64_t rank, std::string_view axis) {
  int64_t others = 0;
  for (const MeshAxis& each : mesh.axes) {
    others = others * each.size + (each.name == axis ? 0 : mesh.coordinate(rank, each.name));
  }
  return {axis, others};
}

// When the last of its ranks came to each exchange of a group.
using Meetings = std::map<Group, std::vector<int64_t>>;
Meetings meetings_of(std::span<const RankRecord> records, const Mesh& mesh) {
  Meetings meetings;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    std::map<std::string_view, size_t> begun;
    for (const KernelTime& kernel : records[rank].kernels) {
      if (kernel.axis.empty() || kernel.half == KernelTime::Half::kWait) {
        continue;
      }
      const size_t number = begun[kernel.axis]++;
      std::vector<int64_t>& times =
          meetings[group_of(mesh, static_cast<int64_t>(rank), kernel.axis)];
      times.resize(std::max(times.size(), number + 1));
      times[number] = std::max(times[number], kernel.begin);
    }
  }
  return meetings;
}

// One rank's time, kernel by kernel.
class Reckoning {
 public:
  Reckoning(const Mesh& mesh, int64_t rank, const Meetings& meetings)
      : mesh_(mesh), rank_(rank), meetings_(meetings) {}

  void add(const KernelTime& kernel) {
    if (kernel.axis.empty()) {
      (is_product(kernel.op) ? total_.products : total_.others) +=
          seconds(kernel.begin, kernel.end);
      return;
    }
    const Begun begun =
        kernel.half == KernelTime::Half::kWait ? begun_before(kernel) : next(kernel);
    switch (kernel.half) {
      case KernelTime::Half::kBegin:
        total_.exchanges += seconds(kernel.begin, kernel.end);
        pending_[{kernel.op, kernel.scope}].push_back(begun);
        return;
      case KernelTime::Half::kWait:
        total_.hidden +=
            seconds(std::max(begun.all_here, begun.end), std::min(kernel.done, kernel.begin));
        [[fallthrough]];
      case KernelTime::Half::kWhole:
        const int64_t all_here = std::clamp(begun.all_here, kernel.begin, kernel.end);
        total_.waiting += seconds(kernel.begin, all_here);
        total_.exchanges += seconds(all_here, kernel.end);
    }
  }

  RankTotal mean(size_t steps) const {
    RankTotal out = total_;
    for (double* const part :
         {&out.products, &out.others, &out.exchanges, &out.waiting, &out.hidden}) {
      *part /= static_cast<double>(steps);
    }
    return out;
  }

 private:
  struct Begun {
    int64_t end = 0;       // of what began it
    int64_t all_here = 0;  // when the last rank had come to it
  };

  static double seconds(int64_t begin, int64_t end) {
    return static_cast<double>(std::max<int64_t>(0, end - begin)) / 1e9;
  }
  Begun next(const KernelTime& kernel) {
    const size_t number = begun_[kernel.axis]++;
    return {kernel.end, meetings_.at(group_of(mesh_, rank_, kernel.axis))[number]};
  }
  // What is equal in name and layer begins and is waited for in turn.
  Begun begun_before(const KernelTime& wait) {
    std::string_view op = wait.op;
    op.remove_prefix(std::min(op.size(), kWaitPrefix.size()));
    std::deque<Begun>& same = pending_[{op, wait.scope}];
    if (same.empty()) {
      return {wait.begin, wait.begin};  // begun before the first step that is recorded
    }
    const Begun out = same.front();
    same.pop_front();
    return out;
  }

  const Mesh& mesh_;
  int64_t rank_;
  const Meetings& meetings_;
  RankTotal total_;
  std::map<std::string_view, size_t> begun_;
  std::map<std::pair<std::string_view, std::string_view>, std::deque<Begun>> pending_;
};

}  // namespace

std::vector<RankRecord> gather_records(Ranks* ranks, RankRecord own) {
  std::vector<RankRecord> out;
  if (ranks == nullptr) {
    out.push_back(std::move(own));
    return out;
  }
  meet(ranks, kWhat);  // clocks are read at one time
  const int64_t now = nanoseconds_now();
  const std::string text = is_first(ranks) ? std::string() : text_of(own, now);
  for (const std::string& theirs : told_to_first(ranks, text, kWhat)) {
    out.push_back(out.empty() ? std::move(own) : record_of(theirs, now));
  }
  return out;
}

std::vector<RankTotal> rank_totals(std::span<const RankRecord> records, const Mesh& mesh) {
  const Meetings meetings = meetings_of(records, mesh);
  std::vector<RankTotal> out;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    Reckoning reckoning(mesh, static_cast<int64_t>(rank), meetings);
    for (const KernelTime& kernel : records[rank].kernels) {
      reckoning.add(kernel);
    }
    out.push_back(reckoning.mean(std::max<size_t>(1, records[rank].steps.size())));
  }
  return out;
}

}  // namespace mstrain
