#include "core/nn/recompute_rule.h"

#include "core/transform/recompute.h"

namespace mstrain {

Tensor recomputed(Recompute rule, const std::function<Tensor(const Tensor&)>& layer,
                  const Tensor& x) {
  return rule == Recompute::kFull ? recompute(layer)(x) : layer(x);
}

Tensor recomputed_cheaply(Recompute rule, const std::function<Tensor(const Tensor&)>& product,
                          const Tensor& x) {
  return rule == Recompute::kSelective ? recompute(product)(x) : product(x);
}

}  // namespace mstrain
