// Where the elements of a tensor lie in memory.
#pragma once

#include "core/runtime/dtype.h"
#include "core/runtime/shape.h"

namespace mstrain {

// dtype and dims: all that an operation may depend on besides its attributes.
struct TensorType {
  Dtype dtype = Dtype::kF32;
  Shape shape;

  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * size_of(dtype); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// "f32[8, 64]"
std::string to_string(const TensorType& type);

// A type with the strides (in elements) at which a kernel finds it. Element i lies at sum(i_d * strides_d).
struct ViewType {
  TensorType type;
  Shape strides;

  static ViewType dense(const TensorType& type) { return {type, contiguous_strides(type.shape)}; }
  bool contiguous() const { return is_contiguous(type.shape, strides); }
  friend bool operator==(const ViewType&, const ViewType&) = default;
};

}  // namespace mstrain
