// Numbers in a row, and tensors repeated.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

// `count` numbers from start to stop, both included, at equal distances.
Tensor linspace(double start, double stop, int64_t count, Dtype dtype = Dtype::kF32,
                const SourceLocation& where = SourceLocation::current());
// Every element of `axis` `times` times in a row: a, a, b, b.
Tensor repeat(const Arg& x, int64_t times, int axis);
// The whole of the last dims, times[i] times along each: a, b, a, b. More dims than x has come before its own.
Tensor tile(const Arg& x, const Shape& times);
// From vectors of n0, n1, … elements tensors [n0, n1, …], of which the i-th holds the i-th vector along dim i.
Tensors meshgrid(std::span<const Tensor> vectors,
                 const SourceLocation& where = SourceLocation::current());

}  // namespace mstrain
