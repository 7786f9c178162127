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
// The number below which the share `q` of the elements along `axis` lies, between two elements by their distance; the
// median is that of one half. NaN where any element is. Differentiable: with respect to the elements that it lies between.
Tensor quantile(const Arg& x, double q, int axis = -1, bool keep_dims = false);
Tensor median(const Arg& x, int axis = -1, bool keep_dims = false);
// ln of the sum of e^x, without overflow.
Tensor logsumexp(const Arg& x, const Shape& axes = {}, bool keep_dims = false);

}  // namespace mstrain
