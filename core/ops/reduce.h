// Reductions over some or all dims. Sums of f32 accumulate in blocks, of bf16 and f16 in f32.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> reduce_ops();
std::span<const OpDef> cumulative_ops();

// Without axes: over all dims. `keep_dims` leaves dims of size 1.
Tensor sum(const Arg& x, const Shape& axes = {}, bool keep_dims = false);
Tensor max(const Arg& x, const Shape& axes = {},
           bool keep_dims = false);  // ties share the derivative
Tensor min(const Arg& x, const Shape& axes = {}, bool keep_dims = false);
Tensor prod(const Arg& x, const Shape& axes = {}, bool keep_dims = false);

// i32 index of the greatest / least element along `axis`: the first among equals.
Tensor argmax(const Arg& x, int axis = -1);
Tensor argmin(const Arg& x, int axis = -1);

// Element i is the sum of elements 0 … i (`reverse`: i … n-1) along `axis`.
Tensor cumsum(const Arg& x, int axis, bool reverse = false);

// The same for products and, with the i32 index of the element that is it (the first among equals; NaN beats all),
// maxima and minima.
Tensor cumprod(const Arg& x, int axis, bool reverse = false);
struct Extremum {
  Tensor values, indices;
};
Extremum cummax(const Arg& x, int axis, bool reverse = false);
Extremum cummin(const Arg& x, int axis, bool reverse = false);

// Whether any / all of the elements are true, or not 0; how many are (i32).
Tensor any(const Arg& x, const Shape& axes = {}, bool keep_dims = false);
Tensor all(const Arg& x, const Shape& axes = {}, bool keep_dims = false);
Tensor count_nonzero(const Arg& x, const Shape& axes = {}, bool keep_dims = false);

// The sum of the squares of all elements: f64 for f64, else f32.
Tensor sum_squares(const Arg& x);

}  // namespace mstrain
