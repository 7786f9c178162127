// Statistics over some or all dims, written with other operations. Floating types only; bf16 and
// f16 are computed in f32 and rounded once. Without axes: over all dims. `keep_dims` leaves dims of
// size 1.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

Tensor mean(const Arg& x, const Shape& axes = {}, bool keep_dims = false);
// The mean square distance from the mean; `correction` is taken from the count (1: the unbiased
// estimate).
Tensor variance(const Arg& x, const Shape& axes = {}, bool keep_dims = false,
                double correction = 0);
// Its square root. The derivative is infinite where all elements are equal.
Tensor standard_deviation(const Arg& x, const Shape& axes = {}, bool keep_dims = false,
                          double correction = 0);
// ln of the sum of e^x, without overflow.
Tensor logsumexp(const Arg& x, const Shape& axes = {}, bool keep_dims = false);

}  // namespace mstrain
