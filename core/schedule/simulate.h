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

struct SimulatedStep {
  double seconds = 0;              // until the last rank has its gradients
  std::vector<double> begin, end;  // by rank, of its first and last work
  std::vector<double> busy;        // by rank

  // The most that a rank waits between its first and last work, over the time that it works.
  double bubble() const;
};

// `times`: by chunk. The schedule must be valid (check_schedule).
SimulatedStep simulate(const Schedule& schedule, const std::vector<ChunkTimes>& times);

}  // namespace mstrain
