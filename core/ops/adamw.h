// One step of AdamW (Loshchilov & Hutter 2019): a composite over whole tensors, of one parameter or of many that share
// their scalars.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> adamw_ops();

struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// Scalars [] that change from step to step, in the accumulation type of the parameter (f32; f64 for
// f64).
struct AdamwScalars {
  Tensor lr;
  Tensor grad_scale;   // times the gradient before anything else
  Tensor correction1;  // 1 - beta1^step
  Tensor correction2;  // 1 - beta2^step
};

struct AdamwState {
  Tensor parameter;
  Tensor m;
  Tensor v;
};

// s = grad_scale gradient; m' = beta1 m + (1 - beta1) s; v' = beta2 v + (1 - beta2) s²;
// p' = p - lr (m' / correction1 / (sqrt(v' / correction2) + eps) + weight_decay p).
AdamwState adamw_update(const AdamwState& state, const Arg& gradient, const AdamwScalars& scalars,
                        const AdamwOptions& options);

}  // namespace mstrain
