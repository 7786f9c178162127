// When each action of a schedule happens, if works and messages take as long as given.
#pragma once

#include "core/schedule/schedule.h"

namespace mstrain {

// Seconds, or any unit. Where a schedule does not split the backward pass, its B takes backward + weights.
struct ChunkTimes {
  double forward = 0, backward = 0, weights = 0;
  double send_forward = 0;   // from this chunk to the next
  double send_backward = 0;  // from this chunk to the one before
};

struct SimulatedAction {
  Action action;
  double begin = 0, end = 0;
};

struct SimulatedStep {
  double seconds = 0;                    // until the last rank has its gradients
  std::vector<double> begin, end;        // by rank, of its first and last work
  std::vector<double> busy;              // by rank
  std::vector<SimulatedAction> actions;  // all but updates; those of a rank in its order

  // The most that a rank waits between its first and last work, over the time that it works.
  double bubble() const;
};

// `times`: by chunk. The schedule must be valid (check_schedule).
SimulatedStep simulate(const Schedule& schedule, const std::vector<ChunkTimes>& times);
// Ranks that share processors take turns. `processor`: of each rank; `times`: those of a rank that has one to itself. While several of a
// processor work, each takes as much longer, and `others` times that, where ranks of other pipelines do the same beside them.
SimulatedStep simulate_sharing(const Schedule& schedule, const std::vector<ChunkTimes>& times,
                               const std::vector<int>& processor, double others = 1);

}  // namespace mstrain
