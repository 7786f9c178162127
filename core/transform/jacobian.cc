#include "core/transform/jacobian.h"

#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/transform/vmap.h"

namespace mstrain {
namespace {

void expect_floating(std::string_view what, const TensorType& type, const Caller& caller) {
  check(is_floating(type.dtype),
        "{}: the {} is {}, at {}; only floating-point values have derivatives", caller.name, what,
        to_string(type), to_string(caller.where));
}

// [n, shape…]: sample i is 1 at element i, else 0.
Tensor unit_vectors(const TensorType& type) {
  const int64_t n = type.elements();
  const Tensor ones = cast(equal(iota({n, n}, 0), iota({n, n}, 1)), type.dtype);
  return reshape(ones, type.shape.with_inserted(0, n));
}

Shape joined(Shape left, const Shape& right) {
  for (int64_t dim : right) {
    left.push_back(dim);
  }
  return left;
}

}  // namespace

Tensor jacobian_of(const TensorFunction& f, const Tensor& x, const Caller& caller) {
  leaves_of_argument(x, 0, caller);
  expect_floating("argument", x.type(), caller);
  // Recorded first, since the cotangents have the type of the result.
  const auto recorded = record(f, std::make_tuple(x), std::array{x.type()});
  const TensorType result = recorded.program->type(recorded.program->outputs()[0]);
  expect_floating("result", result, caller);
  const auto pullback = [&](const Tensor& at, const Tensor& cotangent) {
    const auto again = [&](const Tensor& inner) {
      return replay(*recorded.program, recorded.inputs(std::span(&inner, 1)))[0];
    };
    return vjp(again, at, cotangent, caller.where).second;
  };
  const Tensor rows = vmap(pullback, {false, true})(x, unit_vectors(result));
  return reshape(rows, joined(result.shape, x.shape()));
}

Tensor jacobian_forward_of(const TensorFunction& f, const Tensor& x, const Caller& caller) {
  leaves_of_argument(x, 0, caller);
  expect_floating("argument", x.type(), caller);
  const auto push = [&](const Tensor& at, const Tensor& tangent) {
    return jvp(f, at, tangent, caller.where).second;
  };
  const Tensor columns = vmap(push, {false, true})(x, unit_vectors(x.type()));
  expect_floating("result", columns.type(), caller);
  const Tensor last = move_axis(columns, 0, columns.rank() - 1);
  return reshape(last, joined(columns.shape().without(0), x.shape()));
}

}  // namespace mstrain
