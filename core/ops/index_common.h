// Checks and shapes that the operations on ids share.
#pragma once

#include "core/ops/build.h"

namespace mstrain {

inline void expect_ids(const TensorType& ids) {
  if (ids.dtype != Dtype::kI32 && ids.dtype != Dtype::kI64) {
    throw ShapeError(fmt::format("ids are {}, not i32 or i64", name_of(ids.dtype)),
                     "convert them with cast()");
  }
}

inline void expect_same_dtype(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype) {
    throw ShapeError(fmt::format("dtypes differ: {} and {}", name_of(a.dtype), name_of(b.dtype)),
                     "convert one with cast()");
  }
}

// x with dim `axis` replaced by the dims of ids.
inline Shape gathered_shape(const Shape& x, int axis, const Shape& ids) {
  Shape shape;
  for (int i = 0; i < axis; ++i) {
    shape.push_back(x[i]);
  }
  for (int64_t dim : ids) {
    shape.push_back(dim);
  }
  for (int i = axis + 1; i < x.rank(); ++i) {
    shape.push_back(x[i]);
  }
  return shape;
}

// ids may differ from x along `axis` only.
inline void expect_along(const Shape& x, const Shape& ids, int axis) {
  bool fits = x.rank() == ids.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    fits = i == axis || x[i] == ids[i];
  }
  if (!fits) {
    throw ShapeError(fmt::format("ids {} and tensor {} differ in more than axis {}", to_string(ids),
                                 to_string(x), axis),
                     "gather() takes the same ids everywhere");
  }
}

}  // namespace mstrain
