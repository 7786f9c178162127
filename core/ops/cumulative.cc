// Products, maxima and minima of the elements up to each place. (Sums: reduce.cc.)
#include <array>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

int axis_in(const Attrs& attrs) { return static_cast<int>(attrs.integer("axis")); }

Types infer_product(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  normal_axis(attrs.integer("axis"), in[0].shape.rank());
  attrs.flag("reverse");
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  return {in[0]};
}

Types infer_extremum(std::span<const TensorType> in, const Attrs& attrs) {
  infer_product(in, attrs);
  return {in[0], {Dtype::kI32, in[0].shape}};
}

// The tangent d of the products y up to each element: d[i] = x[i] d[i - 1] + y[i - 1] t[i]. Every step lets d reach twice as
// far back, over `factor`, the products of the elements between. Nothing is divided, so that derivatives of every order are
// right where elements are 0.
Tensors jvp_product(const Application& node, std::span<const Tensor> t) {
  const int axis = axis_in(node.attrs);
  const int64_t n = node.inputs[0].dim(axis);
  if (n <= 1) {
    return {t[0]};
  }
  const auto forwards = [&](const Tensor& x) {
    return node.attrs.flag("reverse") ? flip(x, {axis}) : x;
  };
  const auto part = [&](const Tensor& x, int64_t start, int64_t stop) {
    return slice(x, axis, start, stop);
  };
  Tensor d = forwards(widened(t[0]));
  const Tensor y = forwards(widened(node.outputs[0]));
  Tensor factor = part(forwards(widened(node.inputs[0])), 1, n);
  d = concat({part(d, 0, 1), part(d, 1, n) * part(y, 0, n - 1)}, axis);
  for (int64_t by = 1; by < n; by *= 2) {
    d = concat({part(d, 0, by), part(d, by, n) + factor * part(d, 0, n - by)}, axis);
    if (2 * by < n) {
      factor = part(factor, by, n - by) * part(factor, 0, n - 2 * by);
    }
  }
  return {cast(forwards(d), t[0].dtype())};
}

Tensors jvp_extremum(const Application& node, std::span<const Tensor> t) {
  return {take_along(t[0], node.outputs[1], axis_in(node.attrs)), Tensor()};
}

Tensors vjp_extremum(const Application& node, std::span<const Tensor> ct) {
  return {ct[0].defined() ? scatter_add_along(zeros_like(node.inputs[0]), node.outputs[1], ct[0],
                                              axis_in(node.attrs))
                          : Tensor()};
}

Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool>, int64_t) {
  return apply(op, in, attrs.with("axis", attrs.integer("axis") + 1), kHere);
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 1);
}

std::vector<Sample> samples(Dtype t, double low, bool distinct) {
  const auto sample = [&](const Shape& shape, int64_t axis, bool reverse) {
    return Sample{{{{t, shape}, low, 2, distinct}}, {{"axis", axis}, {"reverse", reverse}}};
  };
  return {sample({9}, 0, false), sample({3, 5, 2}, 1, true), sample({4, 17}, 1, false),
          sample({2, 0}, 1, false)};
}
std::vector<Sample> samples_product(Dtype t) { return samples(t, 0.5, false); }
std::vector<Sample> samples_extremum(Dtype t) { return samples(t, -2, is_floating(t)); }

constexpr OpDef extremum(std::string_view name) {
  return {.name = name,
          .kind = OpKind::kIndex,
          .dtypes = DtypeClass::kNumeric,
          .infer = infer_extremum,
          .jvp = jvp_extremum,
          .vjp = vjp_extremum,
          .batch = batch,
          .cost = cost,
          .layout = layout::beside_axis,
          .samples = samples_extremum,
          .smooth = false};
}

constexpr OpDef kDefs[] = {{.name = "cumprod",
                            .kind = OpKind::kReduce,
                            .dtypes = DtypeClass::kNumeric,
                            .infer = infer_product,
                            .jvp = jvp_product,
                            .batch = batch,
                            .cost = cost,
                            .layout = layout::beside_axis,
                            .samples = samples_product,
                            .precision = Precision::kWide},
                           extremum("cummax"),
                           extremum("cummin")};

Tensors along(const OpDef& op, const Arg& x, int axis, bool reverse) {
  return apply(op, std::array{x.tensor()},
               {{"axis", int64_t{axis_of(x, axis, op.name)}}, {"reverse", reverse}}, x.where());
}

}  // namespace

std::span<const OpDef> cumulative_ops() { return kDefs; }

Tensor cumprod(const Arg& x, int axis, bool reverse) {
  return along(kDefs[0], x, axis, reverse)[0];
}
Extremum cummax(const Arg& x, int axis, bool reverse) {
  const Tensors results = along(kDefs[1], x, axis, reverse);
  return {results[0], results[1]};
}
Extremum cummin(const Arg& x, int axis, bool reverse) {
  const Tensors results = along(kDefs[2], x, axis, reverse);
  return {results[0], results[1]};
}

}  // namespace mstrain
