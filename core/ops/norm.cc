// layer_norm{eps}: (x[..., n], weight[n], bias[n]) -> (y, mean[...], rstd[...])
// layer_norm_grad: (g, x, weight, mean, rstd) -> (dx, dweight, dbias)
// rms_norm{eps}: (x, weight) -> (y, rstd); rms_norm_grad: (g, x, weight, rstd) -> (dx, dweight)
// mean and rstd (1 / standard deviation) have the accumulation type.
#include "core/ops/norm.h"

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

void expect_rows(const TensorType& x) {
  if (!is_floating(x.dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(x.dtype)),
                     "convert it with cast()");
  }
  if (x.shape.rank() == 0 || x.shape.back() == 0) {
    throw ShapeError(fmt::format("has no elements to normalise in {}", to_string(x.shape)));
  }
}

void expect_parameter(std::string_view name, const TensorType& parameter, const TensorType& x) {
  const TensorType expected{x.dtype, {x.shape.back()}};
  if (!(parameter == expected)) {
    throw ShapeError(
        fmt::format("the {} is {}, not {}", name, to_string(parameter), to_string(expected)));
  }
}

TensorType row_type(const TensorType& x) {
  return {accumulation_dtype(x.dtype), x.shape.without(x.shape.rank() - 1)};
}

void expect_row(std::string_view name, const TensorType& given, const TensorType& x) {
  if (!(given == row_type(x))) {
    throw ShapeError(
        fmt::format("the {} is {}, not {}", name, to_string(given), to_string(row_type(x))));
  }
}

void expect_cotangent(const TensorType& g, const TensorType& x) {
  if (!(g == x)) {
    throw ShapeError(fmt::format("cotangent {} and input {} differ", to_string(g), to_string(x)));
  }
}

Types infer_layer_norm(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 3);
  expect_rows(in[0]);
  expect_parameter("weight", in[1], in[0]);
  expect_parameter("bias", in[2], in[0]);
  attrs.number("eps");
  return {in[0], row_type(in[0]), row_type(in[0])};
}

Types infer_layer_norm_grad(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 5);
  expect_rows(in[1]);
  expect_cotangent(in[0], in[1]);
  expect_parameter("weight", in[2], in[1]);
  expect_row("mean", in[3], in[1]);
  expect_row("rstd", in[4], in[1]);
  return {in[1], in[2], in[2]};
}

Types infer_rms_norm(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  expect_rows(in[0]);
  expect_parameter("weight", in[1], in[0]);
  attrs.number("eps");
  return {in[0], row_type(in[0])};
}

Types infer_rms_norm_grad(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 4);
  expect_rows(in[1]);
  expect_cotangent(in[0], in[1]);
  expect_parameter("weight", in[2], in[1]);
  expect_row("rstd", in[3], in[1]);
  return {in[1], in[2]};
}

Tensor row_mean(const Tensor& x) {
  return sum(x, {x.rank() - 1}, true) / static_cast<double>(x.dim(-1));
}

// The sum over all rows, [n]; without leading dims there is one row.
Tensor sum_of_rows(const Tensor& x) {
  return x.rank() == 1 ? x : sum(reshape(x, {x.elements() / x.dim(-1), x.dim(-1)}), {0});
}

Tensor column(const Tensor& row_values) { return expand_dims(row_values, row_values.rank()); }
Tensor without_last(const Tensor& x) { return squeeze(x, x.rank() - 1); }

Tensors decompose_layer_norm(const Attrs& attrs, std::span<const Tensor> in) {
  const Tensor x = widened(in[0]);
  const Tensor mean = row_mean(x);
  const Tensor centred = x - mean;
  const Tensor rstd = rsqrt(row_mean(square(centred)) + attrs.number("eps"));
  const Tensor y = centred * rstd * widened(in[1]) + widened(in[2]);
  return {cast(y, in[0].dtype()), without_last(mean), without_last(rstd)};
}

Tensors decompose_layer_norm_grad(const Attrs&, std::span<const Tensor> in) {
  const Tensor g = widened(in[0]);
  const Tensor rstd = column(in[4]);
  const Tensor normal = (widened(in[1]) - column(in[3])) * rstd;
  const Tensor gw = g * widened(in[2]);
  const Tensor dx = rstd * (gw - row_mean(gw) - normal * row_mean(gw * normal));
  return {cast(dx, in[1].dtype()), cast(sum_of_rows(g * normal), in[2].dtype()),
          cast(sum_of_rows(g), in[2].dtype())};
}

Tensors decompose_rms_norm(const Attrs& attrs, std::span<const Tensor> in) {
  const Tensor x = widened(in[0]);
  const Tensor rstd = rsqrt(row_mean(square(x)) + attrs.number("eps"));
  return {cast(x * rstd * widened(in[1]), in[0].dtype()), without_last(rstd)};
}

Tensors decompose_rms_norm_grad(const Attrs&, std::span<const Tensor> in) {
  const Tensor g = widened(in[0]);
  const Tensor rstd = column(in[3]);
  const Tensor normal = widened(in[1]) * rstd;
  const Tensor gw = g * widened(in[2]);
  const Tensor dx = rstd * (gw - normal * row_mean(gw * normal));
  return {cast(dx, in[1].dtype()), cast(sum_of_rows(g * normal), in[2].dtype())};
}

Tensors vjp_layer_norm(const Application& node, std::span<const Tensor> ct);
Tensors vjp_rms_norm(const Application& node, std::span<const Tensor> ct);

// Rows are independent where all share the parameters.
Tensors batch_rows(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size) {
  for (size_t i = 1; i < in.size(); ++i) {
    if (batched[i]) {
      return batch_by_decomposition(op, attrs, in, batched, size);
    }
  }
  return apply(op, in, attrs, kHere);
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  Cost cost = elementwise_cost(in, out, 0);
  cost.flops = 8 * static_cast<double>(out[0].elements());
  return cost;
}
Cost cost_grad(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  Cost cost = elementwise_cost(in, out, 0);
  cost.flops = 14 * static_cast<double>(out[0].elements());
  return cost;
}

std::vector<Shape> sample_shapes() {
  return {{7}, {1}, {3, 33}, {2, 3, 64}, {5, 1}, {2, 770}, {0, 5}};
}

std::vector<Sample> samples_forward(Dtype t, bool bias) {
  std::vector<Sample> result;
  for (const Shape& shape : sample_shapes()) {
    // A row of one element has no variance: a large eps keeps its derivatives in range.
    Sample sample{{{{t, shape}, -2, 2}, {{t, {shape.back()}}, 0.5, 1.5}},
                  {{"eps", shape.back() == 1 ? 0.5 : 1e-5}}};
    if (bias) {
      sample.inputs.push_back({{t, {shape.back()}}, -1, 1});
    }
    result.push_back(sample);
  }
  return result;
}
std::vector<Sample> samples_layer_norm(Dtype t) { return samples_forward(t, true); }
std::vector<Sample> samples_rms_norm(Dtype t) { return samples_forward(t, false); }

std::vector<Sample> samples_backward(Dtype t, bool mean) {
  std::vector<Sample> result;
  for (const Shape& shape : sample_shapes()) {
    const TensorType x{t, shape};
    Sample sample{{{x, -2, 2}, {x, -2, 2}, {{t, {shape.back()}}, 0.5, 1.5}}, {}};
    if (mean) {
      sample.inputs.push_back({row_type(x), -0.5, 0.5});
    }
    sample.inputs.push_back({row_type(x), 0.5, 1.5});
    result.push_back(sample);
  }
  return result;
}
std::vector<Sample> samples_layer_norm_grad(Dtype t) { return samples_backward(t, true); }
std::vector<Sample> samples_rms_norm_grad(Dtype t) { return samples_backward(t, false); }

constexpr OpDef kDefs[] = {
    {.name = "layer_norm",
     .infer = infer_layer_norm,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_layer_norm,
     .batch = batch_rows,
     .decompose = decompose_layer_norm,
     .cost = cost,
     .layout = layout::rows,
     .samples = samples_layer_norm,
     .rows = {.whole_rows = true, .parameters = 0b110}},
    {.name = "layer_norm_grad",
     .infer = infer_layer_norm_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_by_decomposition,
     .decompose = decompose_layer_norm_grad,
     .cost = cost_grad,
     .layout = layout::rows,
     .samples = samples_layer_norm_grad,
     .rows = {.whole_rows = true, .parameters = 0b100, .column_sums = 0b110}},
    {.name = "rms_norm",
     .infer = infer_rms_norm,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_rms_norm,
     .batch = batch_rows,
     .decompose = decompose_rms_norm,
     .cost = cost,
     .layout = layout::rows,
     .samples = samples_rms_norm,
     .rows = {.whole_rows = true, .parameters = 0b10}},
    {.name = "rms_norm_grad",
     .infer = infer_rms_norm_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_by_decomposition,
     .decompose = decompose_rms_norm_grad,
     .cost = cost_grad,
     .layout = layout::rows,
     .samples = samples_rms_norm_grad,
     .rows = {.whole_rows = true, .parameters = 0b100, .column_sums = 0b10}},
};

Tensors vjp_layer_norm(const Application& node, std::span<const Tensor> ct) {
  if (ct[1].defined() || ct[2].defined()) {
    return vjp_by_decomposition(node, ct);
  }
  const Tensors inputs{ct[0], node.inputs[0], node.inputs[1], node.outputs[1], node.outputs[2]};
  return apply(kDefs[1], inputs, {}, kHere);
}

Tensors vjp_rms_norm(const Application& node, std::span<const Tensor> ct) {
  if (ct[1].defined()) {
    return vjp_by_decomposition(node, ct);
  }
  const Tensors inputs{ct[0], node.inputs[0], node.inputs[1], node.outputs[1]};
  return apply(kDefs[3], inputs, {}, kHere);
}

}  // namespace

std::span<const OpDef> norm_ops() { return kDefs; }

Tensor layer_norm(const Arg& x, const Arg& weight, const Arg& bias, double eps) {
  return apply1(kDefs[0], {x.tensor(), weight.tensor(), bias.tensor()}, {{"eps", eps}}, x.where());
}

Tensor rms_norm(const Arg& x, const Arg& weight, double eps) {
  return apply1(kDefs[2], {x.tensor(), weight.tensor()}, {{"eps", eps}}, x.where());
}

}  // namespace mstrain
