#include "core/ops/arrange.h"

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {

Tensor linspace(double start, double stop, int64_t count, Dtype dtype,
                const SourceLocation& where) {
  check(count >= 0, "linspace: {} numbers, at {}", count, to_string(where));
  check(is_floating(dtype), "linspace: is not defined for {}, at {}; convert it with cast()",
        name_of(dtype), to_string(where));
  const Tensor i = iota({count}, 0, Dtype::kF64, where);
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  const Tensor values = start + i * step;
  // The last one is `stop`, whatever the steps round to.
  return cast(
      count > 1 ? mstrain::where(equal(i, static_cast<double>(count - 1)), stop, values) : values,
      dtype);
}

Tensor repeat(const Arg& x, int64_t times, int axis) {
  const int at = axis_of(x, axis, "repeat");
  check(times >= 0, "repeat: {} times, at {}", times, to_string(x.where()));
  Shape shape = x.tensor().shape();
  const Tensor each = broadcast_to(expand_dims(x, at + 1), shape.with_inserted(at + 1, times));
  shape[at] *= times;
  return reshape(each, shape);
}

Tensor tile(const Arg& x, const Shape& times) {
  Shape shape = x.tensor().shape();
  while (shape.rank() < times.rank()) {
    shape = shape.with_inserted(0, 1);
  }
  const int added = shape.rank() - times.rank();
  Tensor result = reshape(x, shape);
  for (int i = 0; i < times.rank(); ++i) {
    check(times[i] >= 0, "tile: {} times, at {}", to_string(times), to_string(x.where()));
    if (times[i] != 1) {
      const int at = added + i;
      const Tensor wholes =
          broadcast_to(expand_dims(result, at), result.shape().with_inserted(at, times[i]));
      result = flatten(wholes, at, at + 1);
    }
  }
  return result;
}

Tensors meshgrid(std::span<const Tensor> vectors, const SourceLocation& where) {
  Shape shape;
  for (const Tensor& vector : vectors) {
    check(vector.rank() == 1, "meshgrid: {} is no vector, at {}", to_string(vector.shape()),
          to_string(where));
    shape.push_back(vector.dim(0));
  }
  Tensors result;
  for (int i = 0; i < shape.rank(); ++i) {
    Shape thin = Shape::filled(shape.rank(), 1);
    thin[i] = shape[i];
    result.push_back(broadcast_to(reshape(vectors[static_cast<size_t>(i)], thin), shape));
  }
  return result;
}

}  // namespace mstrain
