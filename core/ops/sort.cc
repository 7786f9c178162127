#include <array>

#include "core/ops/index.h"
#include "core/ops/index_common.h"
#include "core/ops/layouts.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

int axis_of(const Attrs& attrs) { return static_cast<int>(attrs.integer("axis")); }

void expect_numbers(const TensorType& type) {
  if (type.dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
}

Types infer_sort(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  expect_numbers(in[0]);
  normal_axis(attrs.integer("axis"), in[0].shape.rank());
  attrs.flag("descending");
  return {in[0]};
}

Types infer_argsort(std::span<const TensorType> in, const Attrs& attrs) {
  return {{Dtype::kI32, infer_sort(in, attrs)[0].shape}};
}

Types infer_topk(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  expect_numbers(in[0]);
  const int64_t k = attrs.integer("k");
  if (in[0].shape.rank() == 0 || k < 0 || k > in[0].shape.back()) {
    throw ShapeError(fmt::format("k = {} of the last dim of {}", k, to_string(in[0].shape)));
  }
  Shape shape = in[0].shape;
  shape[shape.rank() - 1] = k;
  return {{in[0].dtype, shape}, {Dtype::kI32, shape}};
}

Tensor order_of(const Application& node) {
  return argsort(node.inputs[0], axis_of(node.attrs), node.attrs.flag("descending"));
}

Tensors jvp_sort(const Application& node, std::span<const Tensor> t) {
  return {take_along(t[0], order_of(node), axis_of(node.attrs))};
}

Tensors vjp_sort(const Application& node, std::span<const Tensor> ct) {
  return {
      scatter_add_along(zeros_like(node.inputs[0]), order_of(node), ct[0], axis_of(node.attrs))};
}

Tensors jvp_topk(const Application& node, std::span<const Tensor> t) {
  return {take_along(t[0], node.outputs[1]), Tensor()};
}

Tensors vjp_topk(const Application& node, std::span<const Tensor> ct) {
  return {ct[0].defined() ? scatter_add_along(zeros_like(node.inputs[0]), node.outputs[1], ct[0])
                          : Tensor()};
}

Tensors batch_axis(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool>, int64_t) {
  return apply(op, in, attrs.with("axis", attrs.integer("axis") + 1), kHere);
}

// n log2 n comparisons.
Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  double per_element = 1;
  for (int64_t n = in[0].elements(); n > 1; n /= 2) {
    ++per_element;
  }
  Cost cost = elementwise_cost(in, out, 0);
  cost.flops = per_element * static_cast<double>(in[0].elements());
  return cost;
}

SampleInput of(Dtype dtype, const Shape& shape, bool distinct = true) {
  return {{dtype, shape}, -2, 2, distinct};
}

std::vector<Sample> samples_sort(Dtype t) {
  // i8 and u8 have too few values in the range for distinct ones; ties test that the order is
  // stable.
  const bool floating = is_floating(t);
  return {{{of(t, {9}, floating)}, {{"axis", int64_t{0}}, {"descending", false}}},
          {{of(t, {1})}, {{"axis", int64_t{0}}, {"descending", true}}},
          {{of(t, {4, 7, 3}, floating)}, {{"axis", int64_t{1}}, {"descending", true}}},
          {{of(t, {3, 33}, floating)}, {{"axis", int64_t{1}}, {"descending", false}}},
          {{of(t, {2, 0})}, {{"axis", int64_t{1}}, {"descending", false}}},
          {{of(t, {0, 5})}, {{"axis", int64_t{1}}, {"descending", true}}}};
}

std::vector<Sample> samples_topk(Dtype t) {
  const bool floating = is_floating(t);
  return {{{of(t, {9}, floating)}, {{"k", int64_t{4}}}},
          {{of(t, {3, 33}, floating)}, {{"k", int64_t{33}}}},
          {{of(t, {2, 2, 5}, floating)}, {{"k", int64_t{1}}}},
          {{of(t, {4, 5}, floating)}, {{"k", int64_t{0}}}},
          {{of(t, {0, 5})}, {{"k", int64_t{2}}}}};
}

constexpr OpDef kDefs[] = {
    {.name = "sort",
     .kind = OpKind::kIndex,
     .dtypes = DtypeClass::kNumeric,
     .infer = infer_sort,
     .jvp = jvp_sort,
     .vjp = vjp_sort,
     .batch = batch_axis,
     .cost = cost,
     .layout = layout::beside_axis,
     .samples = samples_sort,
     .smooth = false},
    {.name = "argsort",
     .kind = OpKind::kIndex,
     .dtypes = DtypeClass::kNumeric,
     .infer = infer_argsort,
     .jvp = zero_derivative,
     .vjp = zero_derivative,
     .batch = batch_axis,
     .cost = cost,
     .layout = layout::beside_axis,
     .samples = samples_sort,
     .smooth = false},
    {.name = "topk",
     .kind = OpKind::kIndex,
     .dtypes = DtypeClass::kNumeric,
     .infer = infer_topk,
     .jvp = jvp_topk,
     .vjp = vjp_topk,
     .batch = batch_leading,
     .cost = cost,
     .layout = layout::leading<1>,
     .samples = samples_topk,
     .smooth = false},
};

Tensor ordered(const OpDef& op, const Arg& x, int axis, bool descending) {
  const int rank = x.tensor().rank();
  check(axis >= -rank && axis < rank, "{}: axis {} is outside of {}, at {}", op.name, axis,
        to_string(x.tensor().shape()), to_string(x.where()));
  return apply1(op, {x.tensor()},
                {{"axis", int64_t{axis < 0 ? axis + rank : axis}}, {"descending", descending}},
                x.where());
}

}  // namespace

std::span<const OpDef> sort_ops() { return kDefs; }

Tensor sort(const Arg& x, int axis, bool descending) {
  return ordered(kDefs[0], x, axis, descending);
}
Tensor argsort(const Arg& x, int axis, bool descending) {
  return ordered(kDefs[1], x, axis, descending);
}

TopK topk(const Arg& x, int64_t k) {
  const Tensors results = apply(kDefs[2], std::array{x.tensor()}, {{"k", k}}, x.where());
  return {results[0], results[1]};
}

}  // namespace mstrain
