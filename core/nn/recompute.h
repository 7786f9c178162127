// Which activations are kept for the backward pass: a table beside a model, not part of its maths.
#pragma once

#include <functional>

#include "core/ir/tensor.h"

namespace mstrain {

// The `memory.recompute` key. full: a layer keeps its input only and is computed again in the backward pass.
enum class Recompute { kNone, kFull };

// layer(x), by the rule.
Tensor recomputed(Recompute rule, const std::function<Tensor(const Tensor&)>& layer,
                  const Tensor& x);

}  // namespace mstrain
