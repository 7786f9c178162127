// How long steps take, without evaluation, saving or a run directory.
#pragma once

#include <atomic>

#include "core/train/planned_run.h"

namespace mstrain {

struct StepTimes {
  int64_t steps = 0;
  double median_seconds = 0;
  double fastest_seconds = 0;
};

// A run whose steps are timed: with three steps more, which come first and are not counted.
TrainConfig with_warm_up(TrainConfig config);

// Trains with_warm_up() from initial weights. Throws Error where `stop`
// is set before any step was counted.
StepTimes time_steps(const TrainTask& task, const TrainData& data, const TrainConfig& config,
                     const PlannedRun& run, const std::atomic<bool>& stop);

}  // namespace mstrain
