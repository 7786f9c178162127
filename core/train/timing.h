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

// Trains schedule.total_steps from initial weights, after three steps that are not counted. Throws Error where `stop`
// is set before any step was counted.
StepTimes time_steps(const TrainTask& task, const TrainData& data, const TrainConfig& config,
                     const PlannedRun& run, const std::atomic<bool>& stop);

}  // namespace mstrain
