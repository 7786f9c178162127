// Matrices, which are the last two dims [..., m, n], and their diagonals. Offset k counts diagonals to the right of the
// main one, -k those below it.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> matrix_ops();

// 1 on the diagonal, 0 elsewhere. Without columns: square.
Tensor eye(int64_t rows, int64_t columns = -1, Dtype dtype = Dtype::kF32);
// The diagonal of dims axis1 and axis2, as the last dim; shares x's memory.
Tensor diagonal(const Arg& x, int64_t offset = 0, int axis1 = -2, int axis2 = -1);
// Square matrices with the last dim of x on a diagonal and 0 elsewhere: [..., n] -> [..., n + |offset|, n + |offset|].
Tensor diag(const Arg& x, int64_t offset = 0);
// x where the column is at most / at least the row plus offset, 0 elsewhere.
Tensor tril(const Arg& x, int64_t offset = 0);
Tensor triu(const Arg& x, int64_t offset = 0);
// The sum of the diagonal.
Tensor trace(const Arg& x, int64_t offset = 0);

// x[..., m] y[..., n] -> [..., m, n].
Tensor outer(const Arg& x, const Arg& y);
// (Σ |x|^order)^(1/order) over `axes` (without: all): 2 is the length, infinity the largest magnitude, 1 the sum of
// magnitudes. Floating types; 16 bits are summed in f32. The derivative of the length at 0 is 0.
Tensor norm(const Arg& x, const Shape& axes = {}, bool keep_dims = false, double order = 2);

}  // namespace mstrain
