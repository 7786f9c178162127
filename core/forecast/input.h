// What a forecast needs besides the layout and the profile.
#pragma once

#include <functional>

#include "core/forecast/layout.h"
#include "core/train/held_bytes.h"

namespace mstrain {

// What a rank holds besides what its steps change and compute.
struct BesideSteps {
  HeldBytes held;
  double evaluation = 0;  // arena and results of one, beside those of a step
};
using BesideStepsOf = std::function<BesideSteps(const RunLayout& layout)>;

struct ForecastInput {
  const Cluster& cluster;
  ModelSizes model;
  double units_per_sample = 1;
  int64_t global_batch = 1;
  double limit_bytes = 0;
  double model_flops = 0;  // of a sample, without recomputation
  Dtype dtype = Dtype::kF32;
  BesideStepsOf beside = nullptr;  // null: nothing
};

}  // namespace mstrain
