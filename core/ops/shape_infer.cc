// Types of what moves elements.
#include <numeric>

#include "core/ops/build.h"
#include "core/ops/shape_rules.h"

namespace mstrain::shape_rules {

Types infer_reshape(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& shape = attrs.ints("shape");
  expect_dims(shape);
  if (shape.elements() != in[0].elements()) {
    throw ShapeError(fmt::format("{} has {} elements, {} has {}", to_string(in[0].shape),
                                 in[0].elements(), to_string(shape), shape.elements()));
  }
  return {{in[0].dtype, shape}};
}

Types infer_transpose(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& axes = attrs.ints("axes");
  std::vector<bool> seen(kMaxRank, false);
  Shape shape;
  bool orders = axes.rank() == in[0].shape.rank();
  for (int i = 0; orders && i < axes.rank(); ++i) {
    const int64_t axis = axes[i];
    orders = axis >= 0 && axis < axes.rank() && !seen[static_cast<size_t>(axis)];
    if (orders) {
      seen[static_cast<size_t>(axis)] = true;
      shape.push_back(in[0].shape[static_cast<int>(axis)]);
    }
  }
  if (!orders) {
    throw ShapeError(fmt::format("{} is not an order of the dims of {}", to_string(axes),
                                 to_string(in[0].shape)));
  }
  return {{in[0].dtype, shape}};
}

Types infer_broadcast(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& from = in[0].shape;
  const Shape& to = attrs.ints("shape");
  expect_dims(to);
  const int added = to.rank() - from.rank();
  bool fits = added >= 0;
  for (int i = 0; fits && i < from.rank(); ++i) {
    fits = from[i] == to[i + added] || from[i] == 1;
  }
  if (!fits) {
    throw ShapeError(fmt::format("{} does not broadcast to {}", to_string(from), to_string(to)));
  }
  return {{in[0].dtype, to}};
}

Types infer_slice(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& x = in[0].shape;
  const Shape& start = attrs.ints("start");
  const Shape& stop = attrs.ints("stop");
  const Shape& step = attrs.ints("step");
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (start.rank() != x.rank() || stop.rank() != x.rank() || step.rank() != x.rank() ||
        start[i] < 0 || stop[i] > x[i] || start[i] > stop[i] || step[i] < 1) {
      throw ShapeError(fmt::format("[{}, {}) in steps of {} does not lie inside {}",
                                   to_string(start), to_string(stop), to_string(step),
                                   to_string(x)));
    }
    shape.push_back((stop[i] - start[i] + step[i] - 1) / step[i]);
  }
  return {{in[0].dtype, shape}};
}

Types infer_pad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& x = in[0].shape;
  const Shape& low = attrs.ints("low");
  const Shape& high = attrs.ints("high");
  const Shape& inner = attrs.ints("inner");
  if (low.rank() != x.rank() || high.rank() != x.rank() || inner.rank() != x.rank()) {
    throw ShapeError(fmt::format("padding {} {} {} does not have the rank of {}", to_string(low),
                                 to_string(high), to_string(inner), to_string(x)));
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (low[i] < 0 || high[i] < 0 || inner[i] < 0) {
      throw ShapeError(fmt::format("padding {} {} {} is negative", to_string(low), to_string(high),
                                   to_string(inner)));
    }
    shape.push_back(low[i] + x[i] + high[i] + std::max<int64_t>(x[i] - 1, 0) * inner[i]);
  }
  return {{in[0].dtype, shape}};
}

Types infer_concat(std::span<const TensorType> in, const Attrs& attrs) {
  if (in.empty()) {
    throw ShapeError("needs at least one tensor");
  }
  const int axis = normal_axis(attrs.integer("axis"), in[0].shape.rank());
  TensorType type = in[0];
  type.shape[axis] = 0;
  for (const TensorType& part : in) {
    if (part.dtype != type.dtype || part.shape.rank() != type.shape.rank() ||
        !(part.shape.without(axis) == type.shape.without(axis))) {
      throw ShapeError(fmt::format("{} and {} differ in more than axis {}", to_string(in[0]),
                                   to_string(part), axis));
    }
    type.shape[axis] += part.shape[axis];
  }
  return {type};
}

Types infer_split(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const int axis = normal_axis(attrs.integer("axis"), in[0].shape.rank());
  const Shape& sizes = attrs.ints("sizes");
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != in[0].shape[axis]) {
    throw ShapeError(fmt::format("parts {} do not add up to dim {} of {}", to_string(sizes), axis,
                                 to_string(in[0].shape)));
  }
  Types types;
  for (int64_t size : sizes) {
    types.push_back(in[0]);
    types.back().shape[axis] = size;
  }
  return types;
}

Types infer_flip(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  for (int64_t axis : attrs.ints("axes")) {
    normal_axis(axis, in[0].shape.rank());
  }
  return {in[0]};
}

Types infer_copy(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  return {in[0]};
}

}  // namespace mstrain::shape_rules
