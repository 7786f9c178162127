// What each rank along a pipeline needs of its device's memory.
#pragma once

#include <utility>
#include <vector>

#include "core/forecast/laid_model.h"

namespace mstrain {

// Bytes of one rank.
struct RankMemory {
  double parameters = 0;
  double frozen = 0;  // weights that no step changes
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;    // kept for the backward pass, of all micro-batches in flight
  double transient = 0;      // used and gone
  double communication = 0;  // buffers of collectives
  double batch = 0;          // samples
  double evaluation = 0;     // beside all that
  double weights = 0;        // put together, where ranks keep parts or stages
  double outside = 0;        // of the step
  double snapshot = 0;       // the copy that checkpoint.async: true asks for
  double reserved = 0;       // by the device, before a run has any

  // By name, in the order in which people read them.
  std::vector<std::pair<const char*, double>> parts() const;
  double total() const;
};

// `gathers_again`: parameters in parts, for the backward pass.
RankMemory memory_of_rank(const LaidModel& model, int64_t rank, bool gathers_again);
// Whether that is so, as the layout says, or as memory asks for.
bool gathers_again(const LaidModel& model);

}  // namespace mstrain
