#include "core/ops/build.h"

#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/ops/source.h"

namespace mstrain {

Tensor add_or_zero(const Tensor& a, const Tensor& b) {
  if (!a || !b) {
    return a ? a : b;
  }
  return add(a, b);
}

Types types_of(std::span<const Tensor> tensors) {
  Types types;
  for (const Tensor& tensor : tensors) {
    types.push_back(tensor.type());
  }
  return types;
}

void expect_inputs(std::span<const TensorType> inputs, int count) {
  if (static_cast<int>(inputs.size()) != count) {
    throw ShapeError(fmt::format("takes {} inputs, was given {}", count, inputs.size()));
  }
}

int normal_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    throw ShapeError(fmt::format("axis {} is outside of a tensor of {} dims", axis, rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
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
    return {full(b.shape(), x.number(), b.dtype(), x.where()), b};
  }
  if (y.is_number()) {
    const Tensor& a = x.tensor();
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
