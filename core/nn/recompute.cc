#include "core/nn/recompute.h"

#include "core/transform/checkpoint.h"

namespace mstrain {

Tensor recomputed(Recompute rule, const std::function<Tensor(const Tensor&)>& layer,
                  const Tensor& x) {
  return rule == Recompute::kFull ? checkpoint(layer)(x) : layer(x);
}

Tensor recomputed_cheaply(Recompute rule, const std::function<Tensor(const Tensor&)>& product,
                          const Tensor& x) {
  return rule == Recompute::kSelective ? checkpoint(product)(x) : product(x);
}

}  // namespace mstrain
