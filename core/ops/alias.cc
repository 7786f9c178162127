// Movement by index arithmetic: which results are the input's memory with other strides.
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// Strides of `shape` over memory that is walked by `view`: exists where every new dim lies inside a dense run of old
// ones.
std::optional<Aliased> alias_reshape(const ViewType& view, const Shape& shape) {
  if (view.contiguous()) {
    return Aliased{contiguous_strides(shape), 0};
  }
  const Shape& old = view.type.shape;
  if (old.elements() == 0) {
    return Aliased{contiguous_strides(shape), 0};
  }
  Shape strides = Shape::filled(shape.rank(), 0);
  int i = 0;
  int j = 0;
  while (i < old.rank() || j < shape.rank()) {
    // Groups of old dims [i, i2) and new dims [j, j2) with equal products.
    int i2 = i;
    int j2 = j;
    int64_t old_product = 1;
    int64_t new_product = 1;
    if (i2 < old.rank()) {
      old_product = old[i2++];
    }
    if (j2 < shape.rank()) {
      new_product = shape[j2++];
    }
    while (old_product != new_product) {
      if (old_product < new_product) {
        old_product *= old[i2++];
      } else {
        new_product *= shape[j2++];
      }
    }
    // The old group must be one dense run; dims of size 1 do not matter.
    int64_t inner_stride = 0;
    std::optional<int64_t> expected;
    for (int k = i2 - 1; k >= i; --k) {
      if (old[k] == 1) {
        continue;
      }
      if (!expected) {
        inner_stride = view.strides[k];
      } else if (view.strides[k] != *expected) {
        return std::nullopt;
      }
      expected = view.strides[k] * old[k];
    }
    int64_t stride = inner_stride;
    for (int k = j2 - 1; k >= j; --k) {
      strides[k] = stride;
      stride *= shape[k];
    }
    i = i2;
    j = j2;
  }
  return Aliased{strides, 0};
}

}  // namespace

std::optional<Aliased> alias_of(const OpDef& op, const Attrs& attrs, const ViewType& input,
                                size_t output) {
  const Shape& x = input.type.shape;
  if (op.name == "reshape") {
    return alias_reshape(input, attrs.ints("shape"));
  }
  if (op.name == "transpose") {
    Aliased result;
    for (int64_t axis : attrs.ints("axes")) {
      result.strides.push_back(input.strides[static_cast<int>(axis)]);
    }
    return result;
  }
  if (op.name == "broadcast") {
    const Shape& to = attrs.ints("shape");
    Aliased result{Shape::filled(to.rank(), 0), 0};
    for (int i = 0; i < x.rank(); ++i) {
      const int at = i + to.rank() - x.rank();
      result.strides[at] = x[i] == to[at] ? input.strides[i] : 0;
    }
    return result;
  }
  if (op.name == "slice") {
    Aliased result{input.strides, 0};
    for (int i = 0; i < x.rank(); ++i) {
      result.offset += attrs.ints("start")[i] * input.strides[i];
      result.strides[i] *= attrs.ints("step")[i];
    }
    return result;
  }
  if (op.name == "split") {
    Aliased result{input.strides, 0};
    const int axis = static_cast<int>(attrs.integer("axis"));
    for (size_t i = 0; i < output; ++i) {
      result.offset += attrs.ints("sizes")[static_cast<int>(i)] * input.strides[axis];
    }
    return result;
  }
  if (op.name == "flip") {
    Aliased result{input.strides, 0};
    for (int64_t axis : attrs.ints("axes")) {
      const int i = static_cast<int>(axis);
      result.offset += std::max<int64_t>(x[i] - 1, 0) * input.strides[i];
      result.strides[i] = -result.strides[i];
    }
    return result;
  }
  if (op.name == "identity" || op.name == "stop_gradient") {
    return Aliased{input.strides, 0};
  }
  return std::nullopt;
}

}  // namespace mstrain
