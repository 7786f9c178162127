// The layers of a model as a pipeline deals them, and which of their activations are kept for the backward pass: a table
// beside a model, not part of its maths.
#pragma once

#include <functional>

#include "core/transform/recompute.h"

namespace mstrain {

// The `memory.recompute` key.
// full: a layer keeps its input only and is computed again in the backward pass.
// selective: what is cheap beside the products that read it (norms, activations) is computed again, products are not.
enum class Recompute { kNone, kSelective, kFull };

// layer(x), which is layer `index` of the model (core/ops/stage.h), computed again as a whole by the rule `full`.
Tensor model_layer(int64_t index, Recompute rule, const std::function<Tensor(const Tensor&)>& layer,
                   const Tensor& x);

// product(x), matrix products of something cheap: by the rule `selective` the cheap part is computed again, since gradients
// read it and not the products' results. x and the results: any trees of tensors.
template <class Product, class X>
auto recomputed_cheaply(Recompute rule, const Product& product, const X& x) {
  return rule == Recompute::kSelective ? recompute(product)(x) : product(x);
}

}  // namespace mstrain
