// Products with weights, whatever they are kept in (core/tensor/weight.h). Through these alone codes of fewer bits enter
// models; their derivative is zero.
#pragma once

#include "core/tensor/params.h"

namespace mstrain {

// x[..., in...] -> [..., out...]
Tensor multiply(const Tensor& x, const Weight& weight);

// The rows of a weight [count, width] that ids[...] name: [..., width].
Tensor embedding(const Weight& weight, const Tensor& ids);

// The numbers of a weight in its shape, for what needs them all at once.
Tensor numbers(const Weight& weight);

}  // namespace mstrain
