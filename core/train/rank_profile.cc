#include "core/train/rank_profile.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <set>

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
  Json actions = Json::array();
  for (const ActionTime& action : record.actions) {
    actions.push_back(
        {action.work, action.chunk, action.micro_batch, action.asked, action.begin, action.end});
  }
  Json copies = Json::array();
  for (const CopyTime& copy : record.copies) {
    copies.push_back({copy.begin, copy.end, copy.bytes, copy.to_device});
  }
  return Json{{"host", host_name()},           {"now", now},
              {"texts", std::move(texts)},     {"steps", std::move(steps)},
              {"kernels", std::move(kernels)}, {"actions", std::move(actions)},
              {"copies", std::move(copies)}}
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
  for (const Json& action : json->at("actions")) {
    record.actions.push_back({action.at(0).get<Work>(), action.at(1).get<int>(),
                              action.at(2).get<int>(), time(action.at(3)), time(action.at(4)),
                              time(action.at(5))});
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

// Ranks that differ along the axis alone, by the first of them.
using Group = std::pair<std::string_view, int64_t>;
Group group_of(const Mesh& mesh, int64_t rank, std::string_view axis) {
  return {axis, rank - mesh.coordinate(rank, axis) * mesh.stride(axis)};
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

// When the stages of a pipeline ended what others wait for, step by step.
using ActionKey = std::tuple<Group, Work, int, int>;  // chunk and micro-batch behind the work
using ActionEnds = std::map<ActionKey, std::vector<int64_t>>;
ActionEnds ends_of(std::span<const RankRecord> records, const Mesh& mesh) {
  ActionEnds ends;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    const Group group = group_of(mesh, static_cast<int64_t>(rank), kPipelineAxis);
    for (const ActionTime& action : records[rank].actions) {
      ends[{group, action.work, action.chunk, action.micro_batch}].push_back(action.end);
    }
  }
  return ends;
}

// A rank's bars in one step. What follows without a pause, and is alike or too short to be seen, is
// one; the first of a kind is a bar of its own, however short.
class BarRow {
 public:
  BarRow(const ProfiledStep& step, int64_t origin, std::span<const ActionTime> actions)
      : begin_(step.begin), end_(step.end), origin_(origin) {
    for (const ActionTime& action : actions) {
      if (action.begin >= begin_ && action.begin < end_) {
        actions_.push_back(action);
      }
    }
  }

  void add(const KernelTime& kernel) {
    constexpr Bar::Kind kKinds[] = {Bar::Kind::kForward, Bar::Kind::kBackward, Bar::Kind::kUpdate};
    add(part_of(kernel) == "other" ? Bar::Kind::kOther : kKinds[static_cast<size_t>(kernel.part)],
        kernel.begin, kernel.end);
  }
  void add(Bar::Kind kind, int64_t begin, int64_t end) {
    if (begin < begin_ || begin >= end_ || is_in_action(begin)) {
      return;
    }
    if (!bars_.empty() && follows(bars_.back(), begin) && bars_.back().kind == kind) {
      bars_.back().end = end;
    } else {
      bars_.push_back({kind, begin, end});
    }
  }

  std::vector<Bar> bars() const {
    std::vector<Bar> out;
    const auto seconds = [&](int64_t time) { return static_cast<double>(time - origin_) / 1e9; };
    for (const Span& span : seen()) {
      out.push_back({span.kind, -1, -1, seconds(span.begin), seconds(span.end)});
    }
    for (const ActionTime& it : actions_) {
      out.push_back(
          {kind_of(it.work), it.chunk, it.micro_batch, seconds(it.begin), seconds(it.end)});
    }
    std::sort(out.begin(), out.end(), [](const Bar& a, const Bar& b) { return a.begin < b.begin; });
    return out;
  }

 private:
  struct Span {
    Bar::Kind kind;
    int64_t begin, end;
  };

  int64_t least() const { return (end_ - begin_) / 2000; }
  bool follows(const Span& before, int64_t begin) const { return begin - before.end <= least(); }

  // The bars with those that are too short taken into the one before.
  std::vector<Span> seen() const {
    std::vector<Span> out;
    std::set<Bar::Kind> kinds;
    for (const Span& span : bars_) {
      const bool is_first = kinds.insert(span.kind).second;
      if (!out.empty() && follows(out.back(), span.begin) &&
          (out.back().kind == span.kind || (span.end - span.begin <= least() && !is_first))) {
        out.back().end = span.end;
      } else {
        out.push_back(span);
      }
    }
    return out;
  }

  // An action is a bar, whatever it is made of.
  bool is_in_action(int64_t time) const {
    const auto after =
        std::upper_bound(actions_.begin(), actions_.end(), time,
                         [](int64_t t, const ActionTime& action) { return t < action.begin; });
    return after != actions_.begin() && time < std::prev(after)->end;
  }

  int64_t begin_, end_, origin_;
  std::vector<ActionTime> actions_;  // of the step, in the order of time
  std::vector<Span> bars_;
};

// One rank's time, kernel by kernel.
class Reckoning {
 public:
  // `bars`: get what it shows; may be null.
  Reckoning(const Mesh& mesh, int64_t rank, const Meetings& meetings, BarRow* bars)
      : mesh_(mesh), rank_(rank), meetings_(meetings), bars_(bars) {}

  void add(const KernelTime& kernel) {
    if (kernel.axis.empty()) {
      (is_product(kernel.op) ? total_.products : total_.others) +=
          seconds(kernel.begin, kernel.end);
      if (bars_ != nullptr) {
        bars_->add(kernel);
      }
      return;
    }
    const Begun begun =
        kernel.half == KernelTime::Half::kWait ? begun_before(kernel) : next(kernel);
    switch (kernel.half) {
      case KernelTime::Half::kBegin:
        exchange(kernel.begin, kernel.end);
        pending_[{kernel.op, kernel.scope}].push_back(begun);
        return;
      case KernelTime::Half::kWait:
        total_.hidden +=
            seconds(std::max(begun.all_here, begun.end), std::min(kernel.done, kernel.begin));
        [[fallthrough]];
      case KernelTime::Half::kWhole:
        const int64_t all_here = std::clamp(begun.all_here, kernel.begin, kernel.end);
        // Along the pipeline ranks come to an exchange when their part of the schedule is done.
        (kernel.axis == kPipelineAxis ? total_.bubbles : total_.waiting) +=
            seconds(kernel.begin, all_here);
        exchange(all_here, kernel.end);
    }
  }

  // What it waited for was being made, and then under way.
  void add(const ActionTime& action, const ActionEnds& ends) {
    const Group group = group_of(mesh_, rank_, kPipelineAxis);
    const size_t step = done_[{action.work, action.chunk, action.micro_batch}]++;
    const int source = action.work == Work::kForward    ? action.chunk - 1
                       : action.work == Work::kBackward ? action.chunk + 1
                                                        : -1;
    int64_t made = action.begin;
    if (const auto found = ends.find({group, action.work, source, action.micro_batch});
        found != ends.end() && step < found->second.size()) {
      made = std::clamp(found->second[step], action.asked, action.begin);
    }
    total_.bubbles += seconds(action.asked, made);
    total_.exchanges += seconds(made, action.begin);
  }

  RankTotal mean(size_t steps) const {
    RankTotal out = total_;
    for (double* const part :
         {&out.products, &out.others, &out.exchanges, &out.waiting, &out.bubbles, &out.hidden}) {
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
  void exchange(int64_t begin, int64_t end) {
    total_.exchanges += seconds(begin, end);
    if (bars_ != nullptr && begin < end) {
      bars_->add(Bar::Kind::kExchange, begin, end);
    }
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
  BarRow* bars_;
  RankTotal total_;
  std::map<std::string_view, size_t> begun_;
  std::map<std::tuple<Work, int, int>, size_t> done_;
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
  const ActionEnds ends = ends_of(records, mesh);
  std::vector<RankTotal> out;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    Reckoning reckoning(mesh, static_cast<int64_t>(rank), meetings, nullptr);
    for (const KernelTime& kernel : records[rank].kernels) {
      reckoning.add(kernel);
    }
    for (const ActionTime& action : records[rank].actions) {
      reckoning.add(action, ends);
    }
    out.push_back(reckoning.mean(std::max<size_t>(1, records[rank].steps.size())));
  }
  return out;
}

Timeline measured_step(std::span<const RankRecord> records, const Mesh& mesh) {
  const std::vector<ProfiledStep>& steps = records[0].steps;
  std::vector<size_t> by_length(steps.size());
  std::iota(by_length.begin(), by_length.end(), size_t{0});
  const auto middle = by_length.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(by_length.begin(), middle, by_length.end(), [&](size_t a, size_t b) {
    return steps[a].end - steps[a].begin < steps[b].end - steps[b].begin;
  });
  const size_t shown = *middle;
  int64_t begin = steps[shown].begin;
  int64_t end = steps[shown].end;
  for (const RankRecord& record : records) {
    begin = std::min(begin, record.steps[shown].begin);
    end = std::max(end, record.steps[shown].end);
  }
  const Meetings meetings = meetings_of(records, mesh);
  Timeline out{static_cast<double>(end - begin) / 1e9, {}};
  for (size_t rank = 0; rank < records.size(); ++rank) {
    BarRow bars(records[rank].steps[shown], begin, records[rank].actions);
    Reckoning reckoning(mesh, static_cast<int64_t>(rank), meetings, &bars);
    for (const KernelTime& kernel : records[rank].kernels) {
      reckoning.add(kernel);
    }
    out.ranks.push_back(bars.bars());
  }
  return out;
}

}  // namespace mstrain
