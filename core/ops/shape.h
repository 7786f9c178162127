// Operations that move elements and compute nothing. Where strides allow it, the result shares the input's memory.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> shape_ops();

// One dim may be -1: what is left.
Tensor reshape(const Arg& x, const Shape& shape);
// Dims [first, last] become one.
Tensor flatten(const Arg& x, int first = 0, int last = -1);
// Output dim i is input dim axes[i]. Without axes: the last two dims change places.
Tensor transpose(const Arg& x, const Shape& axes);
Tensor transpose(const Arg& x);
Tensor move_axis(const Arg& x, int from, int to);
// NumPy broadcasting: dims of size 1, and missing leading dims, are repeated.
Tensor broadcast_to(const Arg& x, const Shape& shape);
// A dim of size 1 before `axis` / without it.
Tensor expand_dims(const Arg& x, int axis);
Tensor squeeze(const Arg& x, int axis);
// Elements start, start + step, … below stop of every dim.
Tensor slice(const Arg& x, const Shape& start, const Shape& stop, const Shape& step);
Tensor slice(const Arg& x, int axis, int64_t start, int64_t stop, int64_t step = 1);
// Index `index` of `axis`, which disappears.
Tensor select(const Arg& x, int axis, int64_t index);
// `low` elements before, `high` after and `inner` between the elements of each dim, all `value`.
Tensor pad(const Arg& x, const Shape& low, const Shape& high, double value = 0,
           const Shape& inner = {});
Tensor concat(std::span<const Tensor> parts, int axis,
              const SourceLocation& where = SourceLocation::current());
Tensor stack(std::span<const Tensor> parts, int axis,
             const SourceLocation& where = SourceLocation::current());
inline Tensor concat(std::initializer_list<Tensor> parts, int axis,
                     const SourceLocation& where = SourceLocation::current()) {
  return concat(std::span(parts.begin(), parts.size()), axis, where);
}
inline Tensor stack(std::initializer_list<Tensor> parts, int axis,
                    const SourceLocation& where = SourceLocation::current()) {
  return stack(std::span(parts.begin(), parts.size()), axis, where);
}
// Parts of the given sizes along `axis` / of one size each and without the axis.
Tensors split(const Arg& x, const Shape& sizes, int axis);
Tensors unstack(const Arg& x, int axis);
Tensor flip(const Arg& x, const Shape& axes);
// The same values in memory of their own, laid out densely.
Tensor copy(const Arg& x);
// The operation behind copy(), for plans that need one.
const OpDef& copy_op();

}  // namespace mstrain
