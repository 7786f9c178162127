#include "core/ops/alias.h"

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

namespace alias {

std::optional<Aliased> reshape(const Attrs& attrs, std::span<const ViewType> in, size_t) {
  return alias_reshape(in[0], attrs.ints("shape"));
}

std::optional<Aliased> transpose(const Attrs& attrs, std::span<const ViewType> in, size_t) {
  Aliased result;
  for (int64_t axis : attrs.ints("axes")) {
    result.strides.push_back(in[0].strides[static_cast<int>(axis)]);
  }
  return result;
}

std::optional<Aliased> broadcast(const Attrs& attrs, std::span<const ViewType> in, size_t) {
  const Shape& x = in[0].type.shape;
  const Shape& to = attrs.ints("shape");
  Aliased result{Shape::filled(to.rank(), 0), 0};
  for (int i = 0; i < x.rank(); ++i) {
    const int at = i + to.rank() - x.rank();
    result.strides[at] = x[i] == to[at] ? in[0].strides[i] : 0;
  }
  return result;
}

std::optional<Aliased> slice(const Attrs& attrs, std::span<const ViewType> in, size_t) {
  Aliased result{in[0].strides, 0};
  for (int i = 0; i < in[0].type.shape.rank(); ++i) {
    result.offset += attrs.ints("start")[i] * in[0].strides[i];
    result.strides[i] *= attrs.ints("step")[i];
  }
  return result;
}

std::optional<Aliased> split(const Attrs& attrs, std::span<const ViewType> in, size_t output) {
  Aliased result{in[0].strides, 0};
  const int axis = static_cast<int>(attrs.integer("axis"));
  for (size_t i = 0; i < output; ++i) {
    result.offset += attrs.ints("sizes")[static_cast<int>(i)] * in[0].strides[axis];
  }
  return result;
}

std::optional<Aliased> flip(const Attrs& attrs, std::span<const ViewType> in, size_t) {
  Aliased result{in[0].strides, 0};
  for (int64_t axis : attrs.ints("axes")) {
    const int i = static_cast<int>(axis);
    result.offset += std::max<int64_t>(in[0].type.shape[i] - 1, 0) * in[0].strides[i];
    result.strides[i] = -result.strides[i];
  }
  return result;
}

std::optional<Aliased> only(const Attrs& attrs, std::span<const ViewType> in, size_t output) {
  return in.size() == 1 ? each(attrs, in, output) : std::nullopt;
}

std::optional<Aliased> each(const Attrs&, std::span<const ViewType> in, size_t output) {
  return Aliased{in[output].strides, 0, output};
}

}  // namespace alias
}  // namespace mstrain
