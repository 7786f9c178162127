#include "core/schedule/simulate.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/schedule/order.h"

namespace mstrain {

double SimulatedStep::bubble() const {
  double most = 0;
  for (size_t r = 0; r < busy.size(); ++r) {
    most = std::max(most, (end[r] - begin[r] - busy[r]) / busy[r]);
  }
  return most;
}

namespace {

// What actions of a schedule take.
class Durations {
 public:
  Durations(const Schedule& schedule, const std::vector<ChunkTimes>& times)
      : times_(times), splits_(schedule.splits_backward()) {
    check(times.size() == static_cast<size_t>(schedule.chunks),
          "times of {} chunks for a schedule of {}", times.size(), schedule.chunks);
  }

  double of(const Action& action) const {
    const ChunkTimes& chunk = times_[static_cast<size_t>(action.chunk)];
    return action.work == Work::kForward   ? chunk.forward
           : action.work == Work::kWeights ? chunk.weights
           : splits_                       ? chunk.backward
                                           : chunk.backward + chunk.weights;
  }
  // Until what it made is where it is read.
  double of_message(const Action& from) const {
    const ChunkTimes& chunk = times_[static_cast<size_t>(from.chunk)];
    return from.work == Work::kForward ? chunk.send_forward : chunk.send_backward;
  }

 private:
  const std::vector<ChunkTimes>& times_;
  bool splits_;
};

SimulatedStep empty_step(size_t ranks) {
  SimulatedStep out;
  out.begin.assign(ranks, -1);
  out.end.assign(ranks, 0);
  out.busy.assign(ranks, 0);
  return out;
}

void add(SimulatedStep& step, const Action& action, double begin, double end) {
  const auto r = static_cast<size_t>(action.rank);
  step.begin[r] = step.begin[r] < 0 ? begin : step.begin[r];
  step.busy[r] += end - begin;
  step.end[r] = end;
  step.actions.push_back({action, begin, end});
}

}  // namespace

SimulatedStep simulate(const Schedule& schedule, const std::vector<ChunkTimes>& times) {
  const Durations durations(schedule, times);
  const ActionOrder order(schedule);
  SimulatedStep out = empty_step(static_cast<size_t>(schedule.ranks));
  std::vector<double> end(order.size());
  const auto stuck =
      order.walk(schedule.by_rank(), [&](const Action& action, const Action* source) {
        double begin = out.end[static_cast<size_t>(action.rank)];
        if (source != nullptr) {
          begin = std::max(begin, end[order.id(*source)] + durations.of_message(*source));
        }
        end[order.id(action)] = begin + durations.of(action);
        add(out, action, begin, end[order.id(action)]);
      });
  check(!stuck, "schedule {} does not end; it was not checked", schedule.name);
  out.seconds = *std::max_element(out.end.begin(), out.end.end());
  return out;
}

SimulatedStep simulate_sharing(const Schedule& schedule, const std::vector<ChunkTimes>& times,
                               const std::vector<int>& processor, double others) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  struct RankState {
    std::vector<Action> actions;
    size_t next = 0;
    double begin = 0, left = 0;  // of the action that it works on
    bool works = false;
  };
  const Durations durations(schedule, times);
  const ActionOrder order(schedule);
  std::vector<RankState> ranks;
  for (std::vector<Action>& actions : schedule.by_rank()) {
    std::erase_if(actions, [](const Action& action) { return action.work == Work::kUpdate; });
    ranks.push_back({std::move(actions)});
  }
  check(processor.size() == ranks.size(), "processors of {} ranks for a schedule of {}",
        processor.size(), ranks.size());
  std::vector<int> working(
      static_cast<size_t>(*std::max_element(processor.begin(), processor.end())) + 1);
  const auto working_beside = [&](size_t r) -> int& {
    return working[static_cast<size_t>(processor[r])];
  };
  SimulatedStep out = empty_step(ranks.size());
  std::vector<double> end(order.size(), kNever);
  double now = 0;
  while (out.actions.size() < order.size()) {
    double next = kNever;  // when something begins or ends
    for (size_t r = 0; r < ranks.size(); ++r) {
      RankState& rank = ranks[r];
      if (rank.works || rank.next == rank.actions.size()) {
        continue;
      }
      const Action& action = rank.actions[rank.next];
      const std::optional<Action> source = order.source_of(action);
      const double ready = source ? end[order.id(*source)] + durations.of_message(*source) : now;
      if (ready <= now) {
        rank.works = true;
        rank.begin = now;
        rank.left = durations.of(action);
        ++working_beside(r);
      } else {
        next = std::min(next, ready);
      }
    }
    const auto slower = [&](size_t r) { return working_beside(r) * others; };
    for (size_t r = 0; r < ranks.size(); ++r) {
      next = ranks[r].works ? std::min(next, now + ranks[r].left * slower(r)) : next;
    }
    check(next < kNever, "schedule {} does not end; it was not checked", schedule.name);
    std::vector<size_t> ended;
    for (size_t r = 0; r < ranks.size(); ++r) {
      RankState& rank = ranks[r];
      if (!rank.works) {
        continue;
      }
      // What ends now ends, whatever is lost in the last bits.
      if (now + rank.left * slower(r) <= next) {
        ended.push_back(r);
      }
      rank.left -= (next - now) / slower(r);
    }
    for (const size_t r : ended) {
      RankState& rank = ranks[r];
      const Action& action = rank.actions[rank.next++];
      end[order.id(action)] = next;
      rank.works = false;
      --working_beside(r);
      add(out, action, rank.begin, next);
    }
    now = next;
  }
  out.seconds = now;
  return out;
}

}  // namespace mstrain
