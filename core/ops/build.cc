#include "core/ops/build.h"

#include <cmath>

#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/ops/source.h"

namespace mstrain {

Tensor add_or_zero(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) {
    return a.defined() ? a : b;
  }
  return add(a, b);
}

Types types_of(std::span<const Tensor> tensors) {
  Types types;
  for (const Tensor& tensor : tensors) {
    check(tensor.defined(), "an argument is an empty tensor");
    types.push_back(tensor.type());
  }
  return types;
}

void expect_inputs(std::span<const TensorType> inputs, int count) {
  if (static_cast<int>(inputs.size()) != count) {
    throw ShapeError(fmt::format("takes {} inputs, was given {}", count, inputs.size()));
  }
}

void expect_dims(const Shape& shape) {
  if (std::any_of(shape.begin(), shape.end(), [](int64_t dim) { return dim < 0; })) {
    throw ShapeError(fmt::format("a dim of {} is negative", to_string(shape)));
  }
}

int normal_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    throw ShapeError(fmt::format("axis {} is outside of a tensor of {} dims", axis, rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int axis_of(const Arg& x, int axis, std::string_view function) {
  const int rank = x.tensor().rank();
  check(axis >= -rank && axis < rank, "{}: axis {} is outside of {}, at {}", function, axis,
        to_string(x.tensor().shape()), to_string(x.where()));
  return axis < 0 ? axis + rank : axis;
}

void expect_number_of(Dtype dtype, double value, std::string_view op, const SourceLocation& where) {
  if (is_floating(dtype)) {
    return;
  }
  bool fits = value == std::trunc(value);
  if (dtype == Dtype::kBool) {
    fits = value == 0 || value == 1;
  } else {
    const int bits = 8 * size_of(dtype);
    const double end = std::ldexp(1.0, is_signed(dtype) ? bits - 1 : bits);
    fits = fits && value >= (is_signed(dtype) ? -end : 0) && value < end;
  }
  check(fits, "{}: {} is no number of type {}, at {}; convert the tensor with cast()", op, value,
        name_of(dtype), to_string(where));
}

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b,
                      const SourceLocation& where) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  Shape result = longer;
  for (int i = 1; i <= longer.rank(); ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    check(x == y || x == 1 || y == 1, "{}: shapes {} and {} do not broadcast ({} vs {}), at {}", op,
          to_string(a), to_string(b), x, y, to_string(where));
    result[longer.rank() - i] = x == 1 ? y : x;
  }
  return result;
}

std::pair<Tensor, Tensor> broadcast_together(std::string_view op, const Arg& x, const Arg& y) {
  check(!x.is_number() || !y.is_number(), "{}: both arguments are plain numbers, at {}", op,
        to_string(x.where()));
  if (x.is_number()) {
    const Tensor& b = y.tensor();
    expect_number_of(b.dtype(), x.number(), op, x.where());
    return {full(b.shape(), x.number(), b.dtype(), x.where()), b};
  }
  if (y.is_number()) {
    const Tensor& a = x.tensor();
    expect_number_of(a.dtype(), y.number(), op, y.where());
    return {a, full(a.shape(), y.number(), a.dtype(), y.where())};
  }
  const Shape shape = broadcast_shape(op, x.tensor().shape(), y.tensor().shape(), x.where());
  return {broadcast_to(x, shape), broadcast_to(y, shape)};
}

Tensor repeat_leading(const Tensor& x, int64_t size) {
  return broadcast_to(x, x.shape().with_inserted(0, size));
}

Tensors batch_all(std::span<const Tensor> inputs, std::span<const bool> batched, int64_t size) {
  Tensors result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.push_back(batched[i] ? inputs[i] : repeat_leading(inputs[i], size));
  }
  return result;
}

Tensors batch_leading(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                      std::span<const bool> batched, int64_t size) {
  return apply(op, batch_all(inputs, batched, size), attrs, SourceLocation::current());
}

}  // namespace mstrain
