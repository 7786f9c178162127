// The learning-rate finder (Smith 2017, "Cyclical learning rates for training neural networks"): a run whose rate grows
// exponentially from step to step until the loss diverges. Where the loss falls fastest is a rate to begin with.
#pragma once

#include "core/train/session.h"

namespace mstrain {

inline constexpr const char* kFindLrFolder = "find_lr";     // below the run's
inline constexpr const char* kFindLrFile = "find_lr.json";  // the curve and what is suggested

// What the finder saw, step by step.
struct RateCurve {
  std::vector<double> lr;
  std::vector<double> loss;
};

// The loss without its noise: each point the mean of its neighbours, weighted by a bell curve over them.
std::vector<double> smoothed(const std::vector<double>& loss);

// The rate at which the smoothed loss falls fastest per factor of the rate, before it is least; none where it does not
// fall by more than its noise.
std::optional<double> suggested_rate(const RateCurve& curve);

// Where a curve that came to its end suggests a rate next to that end, or to its beginning: the key of FindLrConfig that hides
// what lies beyond, and which way it should go: "a larger find_lr.highest". Empty elsewhere.
std::string range_to_widen(const RateCurve& curve, double suggestion, bool came_to_the_end);

struct FoundRate {
  std::string directory;  // with config.yaml, metrics.jsonl, run.json, find_lr.json and report.html
  RateCurve curve;
  std::optional<double> suggestion;
  std::string end_reason;  // empty: it came to the highest rate
  bool interrupted = false;
};

// Trains from the run's initial weights, in `find_lr` below its directory, which is begun anew; the run itself is not touched,
// and no checkpoint is written. Arguments, ranks and errors as for train().
FoundRate find_lr(FileSystem& files, const TrainConfig& config, const YamlNode& resolved,
                  const TrainTask& task, const TrainData& data, const Refuse& refuse,
                  const std::atomic<bool>& stop, const SessionStart& start = {});

}  // namespace mstrain
