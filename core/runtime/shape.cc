#include "core/runtime/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mstrain {

Shape Shape::with_inserted(int at, int64_t dim) const {
  Shape result = *this;
  result.push_back(0);
  std::copy_backward(dims_.begin() + at, dims_.begin() + rank_, result.dims_.begin() + rank_ + 1);
  result[at] = dim;
  return result;
}

Shape Shape::without(int at) const {
  Shape result;
  for (int i = 0; i < rank_; ++i) {
    if (i != at) {
      result.push_back((*this)[i]);
    }
  }
  return result;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Shape& strides) {
  if (shape.elements() == 0) {
    return true;
  }
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= shape[i];
  }
  return true;
}

}  // namespace mstrain
