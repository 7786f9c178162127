// Which activations are kept for the backward pass: a table beside a model, not part of its maths.
#pragma once

#include <functional>

#include "core/ir/tensor.h"

namespace mstrain {

// The `memory.recompute` key.
// full: a layer keeps its input only and is computed again in the backward pass.
// selective: what is cheap beside the products that read it (norms, activations) is computed again, products are not.
enum class Recompute { kNone, kSelective, kFull };

// layer(x), computed again as a whole by the rule `full`.
Tensor recomputed(Recompute rule, const std::function<Tensor(const Tensor&)>& layer,
                  const Tensor& x);

// product(x), a matrix product of something cheap: by the rule `selective` the cheap part is computed again, since the
// gradient reads it and not the product's result.
Tensor recomputed_cheaply(Recompute rule, const std::function<Tensor(const Tensor&)>& product,
                          const Tensor& x);

}  // namespace mstrain
