// Which steps make no update: those whose loss or gradient is no finite number, and those whose gradient's norm stands out
// from the norms before it. The step program compares with limit() and keeps the state as it was; the host, which reads
// the numbers a step later, comes to the same verdict from them.
#pragma once

#include <deque>

#include "core/train/callback_sections.h"

namespace mstrain {

class StepGuard {
 public:
  // `config` must outlive it.
  explicit StepGuard(const UpdateConfig& config, double least_loss_scale = 0)
      : config_(config), least_loss_scale_(least_loss_scale) {}

  // The largest norm with which step `step` (from 1) makes an update. With skip_spikes: mean + deviations * (standard
  // deviation, at least a hundredth of the mean) of the last `window` finite norms of steps before `step - 1`, whose own
  // may not be known yet; until there are so many: any finite norm.
  float limit(int64_t step) const;

  // Told of every step in order; returns whether it made an update. Throws Error where the run cannot go on: a number
  // that is not finite and is not to be skipped, or more skipped steps in a row than max_skipped. `loss_scale`: of this
  // step, where it is dynamic; above the least one it is what a number that is not finite is put down to, and the step is
  // skipped.
  bool observe(int64_t step, double loss, double grad_norm,
               std::optional<double> loss_scale = std::nullopt);

  int64_t skipped() const { return skipped_; }  // in all

  Json state() const;
  // Throws Error where `state` is not what state() gives.
  void restore(const Json& state);

 private:
  struct Norm {
    int64_t step = 0;
    double value = 0;
  };

  const UpdateConfig& config_;
  double least_loss_scale_;
  std::deque<Norm> norms_;  // finite ones, where spikes are skipped
  int64_t skipped_ = 0;
  int64_t in_a_row_ = 0;
};

}  // namespace mstrain
