#include "core/optim/loss_scale.h"

#include <limits>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {

LossScaleState first_loss_scale_state(const PrecisionConfig& config) {
  return {copy(full({}, config.first_loss_scale())), copy(full({}, 0, Dtype::kI32))};
}

LossScaleState next_loss_scale(const PrecisionConfig& config, const LossScaleState& state,
                               const Tensor& finite) {
  const Tensor taken = state.taken + 1;
  const Tensor grows = taken >= config.loss_scale_interval;
  const Tensor lower = maximum(state.scale * config.loss_scale_backoff, config.loss_scale_min);
  const Tensor grown = state.scale * config.loss_scale_growth;
  // Gradients of exactly 0 bear any factor.
  const Tensor higher = where(logical_and(grows, is_finite(grown)), grown, state.scale);
  return {where(finite, higher, lower), where(logical_and(finite, logical_not(grows)), taken, 0)};
}

Tensor is_finite(const Tensor& norm) {
  return norm < std::numeric_limits<double>::infinity();  // NaN is not
}

}  // namespace mstrain
