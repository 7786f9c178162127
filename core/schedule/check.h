// What must hold of a schedule before anything runs by it.
#pragma once

#include "core/schedule/schedule.h"

namespace mstrain {

struct ScheduleFacts {
  std::vector<int> chunk_rank;  // where each chunk lies
  std::vector<int> in_flight;   // by rank: chunks whose activations are there at once, at most
};

// Proves that every chunk lies on one rank and works on every micro-batch exactly once, forward before backward before
// weights; that every rank updates once, at its end; that two ranks send and receive what passes between them in one order;
// and that nobody waits for ever. Throws Error naming the schedule and the two actions that are at odds.
ScheduleFacts check_schedule(const Schedule& schedule);

}  // namespace mstrain
