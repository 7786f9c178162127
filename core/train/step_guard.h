// Which steps make no update: those whose loss or gradient is no finite number, and those whose gradient's norm stands out
// from the norms before it. The step program compares with limit() and keeps the state as it was; the host, which reads
// the numbers a step later, comes to the same verdict from them.
#pragma once

#include <deque>

#include "core/optim/precision_config.h"
#include "core/train/callback_sections.h"

namespace mstrain {

class StepGuard {
 public:
  // Both must outlive it. `has_rows`: rows that are looked up learn beside the weights, at rates of their own.
  StepGuard(const UpdateConfig& config, const PrecisionConfig& precision, bool has_rows = false)
      : config_(config), precision_(precision), has_rows_(has_rows) {}

  // The largest norm with which step `step` (from 1) makes an update. With skip_spikes: mean + deviations * (standard
  // deviation, at least a hundredth of the mean) of the last `window` finite norms of steps before `step - 1`, whose own
  // may not be known yet; until there are so many: any finite norm.
  float limit(int64_t step) const;

  // Told of every step in order; returns whether it made an update. Throws Error where the run cannot go on: a number
  // that is not finite and is not to be skipped, or more skipped steps in a row than max_skipped. `loss_scale`: of this
  // step, where it is dynamic; above the least one it is what a number that is not finite is put down to, and the step is
  // skipped, and counts for no max_skipped.
  bool observe(int64_t step, double loss, double grad_norm,
               std::optional<double> loss_scale = std::nullopt);

  int64_t skipped() const { return skipped_; }  // in all
  // Throws Error where none of the `steps` of a run made an update.
  void check_any(int64_t steps) const;

  Json state() const;
  // Throws Error where `state` is not what state() gives.
  void restore(const Json& state);

 private:
  struct Norm {
    int64_t step = 0;
    double value = 0;
  };

  const UpdateConfig& config_;
  const PrecisionConfig& precision_;
  const bool has_rows_;
  std::deque<Norm> norms_;  // finite ones, where spikes are skipped
  int64_t skipped_ = 0;
  int64_t in_a_row_ = 0;
};

}  // namespace mstrain
