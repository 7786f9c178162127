// Which action waits for which: what the checker proves with, and what a simulation walks along.
#pragma once

#include <optional>

#include "core/schedule/schedule.h"

namespace mstrain {

// A rank that waits for something that does not come, and the rank that would have to make it.
struct Stuck {
  Action waiting, awaited, other;
};

class ActionOrder {
 public:
  explicit ActionOrder(const Schedule& schedule)
      : chunks_(schedule.chunks),
        micro_batches_(schedule.micro_batches),
        splits_(schedule.splits_backward()) {}

  // Actions but updates, numbered from 0.
  size_t size() const {
    return static_cast<size_t>(splits_ ? 3 : 2) * static_cast<size_t>(chunks_) *
           static_cast<size_t>(micro_batches_);
  }
  size_t id(const Action& action) const {
    return (static_cast<size_t>(action.work) * static_cast<size_t>(chunks_) +
            static_cast<size_t>(action.chunk)) *
               static_cast<size_t>(micro_batches_) +
           static_cast<size_t>(action.micro_batch);
  }
  Action action(size_t id) const;
  // After which a chunk keeps nothing of a micro-batch.
  Work last_work() const { return splits_ ? Work::kWeights : Work::kBackward; }

  // Of the neighbouring chunk: what this action reads, and what reads it. None at the ends, and for W and U.
  std::optional<Action> source_of(const Action& action) const;
  std::optional<Action> reader_of(const Action& action) const;

  // `visit(action, source)` for all actions of all ranks but updates, each as soon as its source, where it has one, was
  // visited; `source` may be null. Ranks keep their order. Gives the first that could not go on, if not all were visited.
  template <class Visit>
  std::optional<Stuck> walk(const std::vector<std::vector<Action>>& ranks, Visit visit) const {
    std::vector<bool> done(size());
    std::vector<size_t> at(ranks.size(), 0);
    // Whoever waits for an action is tried again once it is done.
    std::vector<int> waits(size(), -1);
    std::vector<int> ready;
    for (size_t r = ranks.size(); r-- > 0;) {
      ready.push_back(static_cast<int>(r));
    }
    while (!ready.empty()) {
      const auto r = static_cast<size_t>(ready.back());
      ready.pop_back();
      for (; at[r] < ranks[r].size(); ++at[r]) {
        const Action& action = ranks[r][at[r]];
        if (action.work == Work::kUpdate) {
          continue;
        }
        const std::optional<Action> source = source_of(action);
        if (source && !done[id(*source)]) {
          waits[id(*source)] = static_cast<int>(r);
          break;
        }
        visit(action, source ? &*source : nullptr);
        done[id(action)] = true;
        if (int& waiting = waits[id(action)]; waiting >= 0) {
          ready.push_back(waiting);
          waiting = -1;
        }
      }
    }
    return stuck(ranks, at);
  }

  std::optional<Stuck> first_stuck(const std::vector<std::vector<Action>>& ranks) const {
    return walk(ranks, [](const Action&, const Action*) {});
  }

 private:
  std::optional<Stuck> stuck(const std::vector<std::vector<Action>>& ranks,
                             const std::vector<size_t>& at) const;
  int chunks_, micro_batches_;
  bool splits_;
};

}  // namespace mstrain
