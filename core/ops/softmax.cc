// softmax: x[..., n]; softmax_grad: (y, g) -> y (g - Σ y g)
// log_softmax: x; log_softmax_grad: (y, g) -> g - e^y Σ g
#include "core/ops/softmax.h"

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Types infer(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  if (!is_floating(in[0].dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(in[0].dtype)),
                     "convert it with cast()");
  }
  if (in[0].shape.rank() == 0) {
    throw ShapeError("is not defined for a scalar");
  }
  return {in[0]};
}

Types infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  if (!(in[0] == in[1])) {
    throw ShapeError(
        fmt::format("result {} and cotangent {} differ", to_string(in[0]), to_string(in[1])));
  }
  return infer(in.first(1), attrs);
}

Shape last_axis(const Tensor& x) { return {x.rank() - 1}; }

// x minus its maximum along the last axis, so that no exponential overflows.
Tensor shifted(const Tensor& x) {
  const Tensor wide = widened(x);
  return x.elements() == 0 ? wide : wide - stop_gradient(max(wide, last_axis(x), true));
}

Tensors decompose_softmax(const Attrs&, std::span<const Tensor> in) {
  const Tensor e = exp(shifted(in[0]));
  return {cast(e / sum(e, last_axis(e), true), in[0].dtype())};
}

Tensors decompose_softmax_grad(const Attrs&, std::span<const Tensor> in) {
  const Tensor y = widened(in[0]);
  const Tensor g = widened(in[1]);
  return {cast(y * (g - sum(y * g, last_axis(y), true)), in[0].dtype())};
}

Tensors decompose_log_softmax(const Attrs&, std::span<const Tensor> in) {
  const Tensor x = shifted(in[0]);
  return {cast(x - log(sum(exp(x), last_axis(x), true)), in[0].dtype())};
}

Tensors decompose_log_softmax_grad(const Attrs&, std::span<const Tensor> in) {
  const Tensor g = widened(in[1]);
  return {cast(g - exp(widened(in[0])) * sum(g, last_axis(g), true), in[0].dtype())};
}

Tensors vjp_softmax(const Application& node, std::span<const Tensor> ct);
Tensors vjp_log_softmax(const Application& node, std::span<const Tensor> ct);

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 12);
}
Cost cost_grad(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 4);
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  for (const Shape& shape : {Shape{7}, Shape{1}, Shape{3, 33}, Shape{2, 3, 65}, Shape{2, 1030},
                             Shape{0, 5}, Shape{4, 0}}) {
    result.push_back({{{{t, shape}, -4, 4}}, {}});
  }
  return result;
}
std::vector<Sample> samples_grad(Dtype t, double low, double high) {
  std::vector<Sample> result = samples(t);
  for (Sample& sample : result) {
    const TensorType type = sample.inputs[0].type;
    sample.inputs = {{type, low, high}, {type, -2, 2}};
  }
  return result;
}
std::vector<Sample> samples_softmax_grad(Dtype t) { return samples_grad(t, 0, 1); }
std::vector<Sample> samples_log_softmax_grad(Dtype t) { return samples_grad(t, -5, 0); }

constexpr OpDef kDefs[] = {
    {.name = "softmax",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_softmax,
     .batch = batch_leading,
     .decompose = decompose_softmax,
     .cost = cost,
     .layout = layout::rows,
     .samples = samples,
     .precision = Precision::kWide,
     .rows = {.whole_rows = true}},
    {.name = "softmax_grad",
     .infer = infer_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_leading,
     .decompose = decompose_softmax_grad,
     .cost = cost_grad,
     .layout = layout::rows,
     .samples = samples_softmax_grad,
     .rows = {.whole_rows = true}},
    {.name = "log_softmax",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_log_softmax,
     .batch = batch_leading,
     .decompose = decompose_log_softmax,
     .cost = cost,
     .layout = layout::rows,
     .samples = samples,
     .precision = Precision::kWide,
     .rows = {.whole_rows = true}},
    {.name = "log_softmax_grad",
     .infer = infer_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_leading,
     .decompose = decompose_log_softmax_grad,
     .cost = cost_grad,
     .layout = layout::rows,
     .samples = samples_log_softmax_grad,
     .rows = {.whole_rows = true}},
};

Tensors vjp_softmax(const Application& node, std::span<const Tensor> ct) {
  return {apply1(kDefs[1], {node.outputs[0], ct[0]}, {}, kHere)};
}
Tensors vjp_log_softmax(const Application& node, std::span<const Tensor> ct) {
  return {apply1(kDefs[3], {node.outputs[0], ct[0]}, {}, kHere)};
}

Tensor over_axis(const OpDef& op, const Arg& arg, int axis) {
  const Tensor& x = arg.tensor();
  check(axis >= -x.rank() && axis < x.rank(), "{}: axis {} is outside of {}, at {}", op.name, axis,
        to_string(x.shape()), to_string(arg.where()));
  const int last = x.rank() - 1;
  const int normal = axis < 0 ? axis + x.rank() : axis;
  if (normal == last) {
    return apply1(op, {x}, {}, arg.where());
  }
  return move_axis(apply1(op, {move_axis(x, normal, last)}, {}, arg.where()), last, normal);
}

}  // namespace

std::span<const OpDef> softmax_ops() { return kDefs; }

Tensor softmax(const Arg& x, int axis) { return over_axis(kDefs[0], x, axis); }
Tensor log_softmax(const Arg& x, int axis) { return over_axis(kDefs[2], x, axis); }

}  // namespace mstrain
