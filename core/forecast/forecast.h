// What a layout takes on a cluster: memory of the rank that needs most, and the time of a step.
#pragma once

#include "core/forecast/rank_memory.h"
#include "core/schedule/timeline.h"

namespace mstrain {

// Seconds of a step, of the rank that works longest. products + attention + memory_bound + exposed_communication +
// pipeline_bubble + optimizer = step; tensor and data are all of their collectives, hidden ones included.
struct Breakdown {
  double products = 0, attention = 0, memory_bound = 0;
  double tensor = 0, data = 0;
  double pipeline_bubble = 0;
  double optimizer = 0;
  double exposed_communication = 0;
};

struct Forecast {
  RunLayout layout;
  std::vector<RankMemory> stages;  // by rank along the pipeline
  double limit_bytes = 0;
  double step_seconds = 0;
  Breakdown breakdown;
  double tokens_per_second = 0;  // or what the task counts
  double utilization = 0;        // of the devices' peak, by the model's own operations

  const RankMemory& largest() const;
  double peak_bytes() const { return largest().total(); }
  bool fits() const { return peak_bytes() <= limit_bytes; }
};

// `profile`: of a micro-batch of layout.micro / layout.copies samples, with layout.recompute.
Forecast forecast(const ForecastInput& input, const Profile& profile, const RunLayout& layout);

// What the ranks do in such a step, in bars. Exchanges that nothing hides stand at the end of what they belong to.
Timeline planned_step(const ForecastInput& input, const Profile& profile, const RunLayout& layout);

// The same without a simulation: the schedule waits as long as its formula says.
struct QuickForecast {
  double peak_bytes = 0;
  double seconds = 0;
};
QuickForecast quick_forecast(const ForecastInput& input, const Profile& profile,
                             const RunLayout& layout);

}  // namespace mstrain
