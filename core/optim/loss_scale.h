// The loss scale: a factor that keeps the gradients of fp16 away from zero, taken out again before the update.
//
// Dynamic (Micikevicius et al. 2018): where the gradients' norm is not finite the step is skipped, as if it had not been
// (parameters, moments and the count of updates stay), and the scale becomes max(scale backoff, min). After `interval`
// steps in a row that were taken it becomes scale growth, and the count of them begins anew.
#pragma once

#include "core/ir/tensor.h"
#include "core/optim/precision_config.h"

namespace mstrain {

// Part of the state of a run. A tree (core/tensor/tree.h).
struct LossScaleState {
  Tensor scale;  // f32 []
  Tensor taken;  // i32 []: steps taken since the scale last changed

  template <class V>
  void fields(V& v) {
    v("scale", scale);
    v("taken", taken);
  }
};

LossScaleState first_loss_scale_state(const PrecisionConfig& config);
// After a step; `finite`: bool [], whether it was taken.
LossScaleState next_loss_scale(const PrecisionConfig& config, const LossScaleState& state,
                               const Tensor& finite);
// Whether a norm is finite: bool [].
Tensor is_finite(const Tensor& norm);

}  // namespace mstrain
