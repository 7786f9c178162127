// Steps whose samples are of unlike lengths: parts of a batch, each as long as its own samples.
#pragma once

#include <vector>

#include "core/train/sections.h"
#include "core/train/task.h"

namespace mstrain {

// Samples of a step that follow one another, on all ranks.
struct LengthPart {
  TrainTask task;  // over samples no longer than these
  int64_t samples = 0;
  int64_t units = 0;  // of a sample, with what fills it up
};

// What a step is computed in by micro-batches of `micro` on each of `ranks`, of each of parallel.copies; one after the other. None: the
// batch is one part, since its samples are of one length, or parts would save too little. They do not depend on `ranks` where micro-batches of all
// divide an eighth of the batch.
std::vector<LengthPart> length_parts(const TrainTask& task, const TrainConfig& config,
                                     int64_t micro, int64_t ranks);

// The most samples of a micro-batch with which a step on `ranks` has the parts that save most, where they save enough; else all that a
// rank's copy has.
int64_t most_in_micro_batch(const TrainTask& task, const TrainConfig& config, int64_t ranks);

}  // namespace mstrain
