#include "core/nn/model_layer.h"

#include "core/ops/stage.h"

namespace mstrain {

Tensor model_layer(int64_t index, Recompute rule, const std::function<Tensor(const Tensor&)>& layer,
                   const Tensor& x) {
  const Tensor in = stage_point(x, index);
  return rule == Recompute::kFull ? recompute(layer)(in) : layer(in);
}

}  // namespace mstrain
