// From drawn places to what each learner learns from: items go from whoever holds them to whoever learns from them.
#pragma once

#include <vector>

#include "core/comm/communicator.h"
#include "suites/reinforcement/train/replay.h"

namespace mstrain::reinforcement {

// Which of b items are learned by whom: `parts` equal parts one after another, part i by learner i mod `learners`.
struct BatchParts {
  int64_t items = 0, parts = 1, learners = 1, learner = 0;

  int64_t size() const { return items / parts; }
  int64_t turns() const { return parts / learners; }
  // The first item of a learner's part of a turn.
  int64_t first(int64_t turn, int64_t of) const { return (turn * learners + of) * size(); }
};

// This learner's items, [turns][size, item_numbers()]. Every learner, each of which holds its part of the rows, calls it with the same
// places; one exchange. `ranks`: of the learners, null where there is one.
std::vector<std::vector<float>> shared_items(const Replay& replay,
                                             const std::vector<int64_t>& places,
                                             const BatchParts& parts, Communicator* ranks);

}  // namespace mstrain::reinforcement
