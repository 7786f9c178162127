#include "core/schedule/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/schedule/order.h"

namespace mstrain {
namespace {

class Checker {
 public:
  explicit Checker(const Schedule& schedule)
      : schedule_(schedule), order_(schedule), ranks_(schedule.by_rank()) {}

  ScheduleFacts check() {
    find_chunks();
    for (const std::vector<Action>& rank : ranks_) {
      check_rank(rank);
    }
    check_messages();
    check_progress();
    return facts_;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(fmt::format("schedule {}: {}", schedule_.name,
                            fmt::format(format, std::forward<Args>(args)...)));
  }

  void find_chunks() {
    facts_.chunk_rank.assign(static_cast<size_t>(schedule_.chunks), -1);
    std::vector<bool> seen(order_.size());
    for (const Action& action : schedule_.actions) {
      if (action.rank < 0 || action.rank >= schedule_.ranks || action.chunk < 0 ||
          action.chunk >= schedule_.chunks || action.micro_batch < 0 ||
          action.micro_batch >= schedule_.micro_batches) {
        refuse("{} on rank {} is beyond its {} ranks, {} chunks or {} micro-batches",
               to_string(action), action.rank, schedule_.ranks, schedule_.chunks,
               schedule_.micro_batches);
      }
      if (action.work == Work::kUpdate) {
        continue;
      }
      int& rank = facts_.chunk_rank[static_cast<size_t>(action.chunk)];
      if (rank >= 0 && rank != action.rank) {
        refuse("{} is on rank {}, but rank {} has chunk {}", to_string(action), action.rank, rank,
               action.chunk);
      }
      rank = action.rank;
      if (seen[order_.id(action)]) {
        refuse("rank {}: {} stands there twice", action.rank, to_string(action));
      }
      seen[order_.id(action)] = true;
    }
    for (size_t id = 0; id < seen.size(); ++id) {
      if (!seen[id]) {
        refuse("{} is missing", to_string(order_.action(id)));
      }
    }
  }

  void check_rank(const std::vector<Action>& actions) {
    const int rank = static_cast<int>(&actions - ranks_.data());
    if (actions.empty() || actions.back().work != Work::kUpdate) {
      refuse("rank {}: U is missing at its end", rank);
    }
    std::vector<bool> done(order_.size());
    int live = 0;
    int most = 0;
    for (const Action& action : actions) {
      if (action.work == Work::kUpdate) {
        if (&action != &actions.back()) {
          refuse("rank {}: {} stands behind U", rank, to_string((&action)[1]));
        }
        continue;
      }
      if (action.work != Work::kForward) {
        Action before = action;
        before.work = action.work == Work::kBackward ? Work::kForward : Work::kBackward;
        if (!done[order_.id(before)]) {
          refuse("rank {}: {} stands before {}", rank, to_string(action), to_string(before));
        }
      }
      done[order_.id(action)] = true;
      live += action.work == Work::kForward ? 1 : 0;
      live -= action.work == order_.last_work() ? 1 : 0;
      most = std::max(most, live);
    }
    facts_.in_flight.push_back(most);
  }

  // What one rank sends to another, forward or backward, is received in the same order.
  void check_messages() const {
    using Channel = std::tuple<int, int, Work>;  // from, to
    std::map<Channel, std::vector<Action>> sent;
    std::map<Channel, std::vector<Action>> received;
    for (const Action& action : schedule_.actions) {
      if (const auto next = order_.reader_of(action)) {
        const int to = facts_.chunk_rank[static_cast<size_t>(next->chunk)];
        if (to != action.rank) {
          sent[{action.rank, to, action.work}].push_back(action);
        }
      }
      if (const auto source = order_.source_of(action)) {
        const int from = facts_.chunk_rank[static_cast<size_t>(source->chunk)];
        if (from != action.rank) {
          received[{from, action.rank, action.work}].push_back(action);
        }
      }
    }
    for (const auto& [channel, messages] : sent) {
      const std::vector<Action>& readers = received[channel];
      for (size_t i = 0; i < messages.size(); ++i) {
        const Action expected = *order_.reader_of(messages[i]);
        if (readers[i].chunk != expected.chunk || readers[i].micro_batch != expected.micro_batch) {
          const auto& [from, to, work] = channel;
          refuse("rank {} sends what {} made where rank {} waits for what {} reads", from,
                 to_string(messages[i]), to, to_string(readers[i]));
        }
      }
    }
  }

  void check_progress() const {
    if (const std::optional<Stuck> stuck = order_.first_stuck(ranks_)) {
      refuse("nobody can go on: rank {} waits in {} for {}, and rank {} stands at {}",
             stuck->waiting.rank, to_string(stuck->waiting), to_string(stuck->awaited),
             stuck->other.rank, to_string(stuck->other));
    }
  }

  const Schedule& schedule_;
  ActionOrder order_;
  std::vector<std::vector<Action>> ranks_;
  ScheduleFacts facts_;
};

}  // namespace

ScheduleFacts check_schedule(const Schedule& schedule) {
  if (schedule.ranks < 1 || schedule.chunks < schedule.ranks || schedule.micro_batches < 1) {
    fail("schedule {}: {} ranks, {} chunks and {} micro-batches", schedule.name, schedule.ranks,
         schedule.chunks, schedule.micro_batches);
  }
  return Checker(schedule).check();
}

}  // namespace mstrain
