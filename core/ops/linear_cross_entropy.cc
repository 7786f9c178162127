// linear_cross_entropy{ignore_index, label_smoothing, transpose_weight}, linear_cross_entropy_grad{the same}.
#include "core/ops/linear_cross_entropy.h"

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/dot_general.h"
#include "core/ops/index_common.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {

using namespace linear_head;

namespace {

constexpr SourceLocation kHere = SourceLocation::current();

struct Sizes {
  Shape rows;  // of x
  int64_t width = 0, classes = 0;
};

// Throws ShapeError unless x, the weight and the bias (null: none) make logits.
Sizes check_head(const TensorType& x, const TensorType& weight, const TensorType* bias,
                 const Attrs& attrs) {
  if (!is_floating(x.dtype)) {
    throw ShapeError(fmt::format("x is {}", name_of(x.dtype)), "convert it with cast()");
  }
  expect_same_dtype(x, weight);
  const bool transposed = attrs.flag("transpose_weight");
  if (x.shape.rank() == 0 || weight.shape.rank() != 2 ||
      weight.shape[transposed ? 1 : 0] != x.shape.back()) {
    throw ShapeError(
        fmt::format("the weight is {}, x {}", to_string(weight.shape), to_string(x.shape)),
        transposed ? "x[..., k] meets a weight [n, k]" : "x[..., k] meets a weight [k, n]");
  }
  const int64_t classes = weight.shape[transposed ? 0 : 1];
  if (bias != nullptr && !(*bias == TensorType{x.dtype, {classes}})) {
    throw ShapeError(fmt::format("the bias is {}, not {}", to_string(*bias),
                                 to_string(TensorType{x.dtype, {classes}})));
  }
  return {x.shape.without(x.shape.rank() - 1), x.shape.back(), classes};
}

// The type of what each row has. Throws as cross_entropy does.
TensorType row_type(const TensorType& x, const Sizes& sizes, const TensorType& targets,
                    const Attrs& attrs) {
  const TensorType logits{x.dtype, sizes.rows.with_inserted(sizes.rows.rank(), sizes.classes)};
  const TensorType both[] = {logits, targets};
  return kCrossEntropy.infer(std::span(both), attrs)[0];
}

void expect_inputs_or_bias(std::span<const TensorType> in, int count) {
  if (in.size() != static_cast<size_t>(count) + 1) {
    expect_inputs(in, count);
  }
}

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs_or_bias(in, 3);
  const Sizes sizes = check_head(in[0], in[1], in.size() > 3 ? &in[3] : nullptr, attrs);
  const TensorType row = row_type(in[0], sizes, in[2], attrs);
  return {row, row, {Dtype::kI32, row.shape}};
}

Types infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs_or_bias(in, 5);
  const Sizes sizes = check_head(in[1], in[2], in.size() > 5 ? &in[5] : nullptr, attrs);
  const TensorType row = row_type(in[1], sizes, in[3], attrs);
  for (const size_t i : {0, 4}) {
    if (!(in[i] == row)) {
      throw ShapeError(
          fmt::format("a value of each row is {}, not {}", to_string(in[i]), to_string(row)));
    }
  }
  Types out{in[1], in[2]};
  if (in.size() > 5) {
    out.push_back(in[5]);
  }
  return out;
}

Tensor as_row_values(const Tensor& x) { return reshape(x, {x.elements()}); }

// Without columns x has no number of rows to divide by.
Tensor rows_of(const Tensor& x, const Tensor& targets) {
  return reshape(x, {targets.elements(), x.dim(-1)});
}

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  const Shape rows = in[2].shape();
  const Tensor all = logits(attrs, rows_of(in[0], in[2]), in[1], in.size() > 3 ? in[3] : Tensor());
  const Tensors of_rows = losses(attrs, all, as_row_values(in[2]));
  return {reshape(of_rows[0], rows), reshape(of_rows[1], rows), reshape(argmax(all), rows)};
}

Tensors decompose_grad(const Attrs& attrs, std::span<const Tensor> in) {
  const Tensor x = rows_of(in[1], in[3]);
  const Tensor bias = in.size() > 5 ? in[5] : Tensor();
  const Tensor d = logits_gradient(attrs, as_row_values(in[0]), logits(attrs, x, in[2], bias),
                                   as_row_values(in[3]), as_row_values(in[4]));
  Tensors out{reshape(x_gradient(attrs, d, in[2]), in[1].shape()), weight_gradient(attrs, d, x)};
  if (bias.defined()) {
    out.push_back(sum(d, {0}));
  }
  return out;
}

Tensors vjp(const Application& node, std::span<const Tensor> ct);

// Rows of a batch are more rows, as long as one weight serves them all.
Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
              std::span<const bool> batched, int64_t size) {
  if (batched[1] || (inputs.size() > 3 && batched[3])) {
    return batch_by_decomposition(op, attrs, inputs, batched, size);
  }
  Tensors all(inputs.begin(), inputs.end());
  for (const size_t i : {0, 2}) {
    all[i] = batched[i] ? all[i] : repeat_leading(all[i], size);
  }
  return apply(op, all, attrs, kHere);
}

// `products` of the size of the logits' one, and a few operations for each of them.
Cost cost_of(std::span<const TensorType> in, std::span<const TensorType> out, const TensorType& x,
             const TensorType& weight, double products) {
  Cost cost = elementwise_cost(in, out, 0);
  const double classes = static_cast<double>(weight.elements()) /
                         static_cast<double>(std::max<int64_t>(x.shape.back(), 1));
  const double rows =
      static_cast<double>(x.elements()) / static_cast<double>(std::max<int64_t>(x.shape.back(), 1));
  cost.flops = rows * (2 * products * static_cast<double>(weight.elements()) + 12 * classes);
  return cost;
}
Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return cost_of(in, out, in[0], in[1], 1);
}
Cost cost_grad(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return cost_of(in, out, in[1], in[2], 3);
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& x, int64_t classes, bool transposed, bool bias, Dtype ids,
                       int64_t ignored, double smoothing) {
    const Shape rows = x.without(x.rank() - 1);
    const Shape weight = transposed ? Shape{classes, x.back()} : Shape{x.back(), classes};
    result.push_back({{{{t, x}}, {{t, weight}}, {{ids, rows}, 0, static_cast<double>(classes)}},
                      {{"ignore_index", ignored},
                       {"label_smoothing", smoothing},
                       {"transpose_weight", transposed}}});
    if (bias) {
      result.back().inputs.push_back({{t, {classes}}});
    }
  };
  add({5, 3}, 7, true, false, Dtype::kI32, -100, 0);
  add({2, 3, 4}, 9, false, true, Dtype::kI64, -100, 0.1);
  add({6, 2}, 3, true, true, Dtype::kI32, 1, 0);  // a class that is ignored
  add({4}, 33, false, false, Dtype::kI32, -100, 0.3);
  add({17, 8}, 65, true, false, Dtype::kI32, -100, 0);
  add({0, 4}, 5, true, false, Dtype::kI32, -100, 0);
  return result;
}

std::vector<Sample> samples_grad(Dtype t) {
  std::vector<Sample> result = samples(t);
  for (Sample& sample : result) {
    auto& inputs = sample.inputs;
    const TensorType row{accumulation_dtype(t), inputs[2].type.shape};
    inputs.insert(inputs.begin(), {row, -2, 2});
    // Near the true logsumexp, so that the exponentials stay in range.
    inputs.insert(inputs.begin() + 4, {row, 1, 4});
  }
  return result;
}

constexpr OpDef kDefs[] = {
    {.name = "linear_cross_entropy",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp,
     .batch = batch,
     .decompose = decompose,
     .cost = cost,
     .layout = linear_head::ways,
     .samples = samples,
     .precision = Precision::kNarrow},
    {.name = "linear_cross_entropy_grad",
     .infer = infer_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_by_decomposition,
     .decompose = decompose_grad,
     .cost = cost_grad,
     .layout = linear_head::ways_of_gradient,
     .samples = samples_grad},
};

Tensors vjp(const Application& node, std::span<const Tensor> ct) {
  if (ct[1].defined() || !ct[0].defined()) {
    return vjp_by_decomposition(node, ct);
  }
  const auto& in = node.inputs;
  Tensors inputs{ct[0], in[0], in[1], in[2], node.outputs[1]};
  if (in.size() > 3) {
    inputs.push_back(in[3]);
  }
  const Tensors d = apply(kDefs[1], inputs, node.attrs, kHere);
  Tensors out{d[0], d[1], Tensor()};
  if (in.size() > 3) {
    out.push_back(d[2]);
  }
  return out;
}

// Those of cross_entropy.
Attrs loss_attrs(const Attrs& attrs) {
  return {{"ignore_index", attrs.integer("ignore_index")},
          {"label_smoothing", attrs.number("label_smoothing")}};
}

}  // namespace

namespace linear_head {

// 16-bit logits are rounded once, with their bias.
Tensor logits(const Attrs& attrs, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const DotDims dims{"rk", attrs.flag("transpose_weight") ? "nk" : "kn", "rn"};
  if (!bias.defined()) {
    return dot_general(x, weight, dims);
  }
  const Tensors in{x, weight, bias};
  return apply(kDotGeneral, in, with_epilogue({{"dims", to_text(dims)}}, "bias"), kHere)[0];
}

Tensors losses(const Attrs& attrs, const Tensor& logits, const Tensor& targets) {
  const Tensors in{logits, targets};
  return apply(kCrossEntropy, in, loss_attrs(attrs), kHere);
}

Tensor logits_gradient(const Attrs& attrs, const Tensor& g, const Tensor& logits,
                       const Tensor& targets, const Tensor& logsumexp) {
  const Tensors in{g, logits, targets, logsumexp};
  return apply(kCrossEntropyGrad, in, loss_attrs(attrs), kHere)[0];
}

Tensor x_gradient(const Attrs& attrs, const Tensor& dlogits, const Tensor& weight) {
  return dot_general(dlogits, weight, {"rn", attrs.flag("transpose_weight") ? "nk" : "kn", "rk"});
}

Tensor weight_gradient(const Attrs& attrs, const Tensor& dlogits, const Tensor& x) {
  return attrs.flag("transpose_weight") ? dot_general(dlogits, x, {"rn", "rk", "nk"})
                                        : dot_general(x, dlogits, {"rk", "rn", "kn"});
}

}  // namespace linear_head

const OpDef& kLinearCrossEntropy = kDefs[0];
const OpDef& kLinearCrossEntropyGrad = kDefs[1];

std::span<const OpDef> linear_cross_entropy_ops() { return kDefs; }

LinearCrossEntropyRows linear_cross_entropy_rows(const Arg& x, const Arg& weight,
                                                 const Arg& targets,
                                                 const LinearCrossEntropyOptions& options) {
  Tensors inputs{x.tensor(), weight.tensor(), targets.tensor()};
  if (options.bias.defined()) {
    inputs.push_back(options.bias);
  }
  const Tensors rows = apply(kLinearCrossEntropy, inputs,
                             {{"ignore_index", options.ignore_index},
                              {"label_smoothing", options.label_smoothing},
                              {"transpose_weight", options.transpose_weight}},
                             x.where());
  return {rows[0], rows[1], rows[2]};
}

CrossEntropySums linear_cross_entropy(const Arg& x, const Arg& weight, const Arg& targets,
                                      const LinearCrossEntropyOptions& options) {
  const LinearCrossEntropyRows rows = linear_cross_entropy_rows(x, weight, targets, options);
  const Tensor& classes = targets.tensor();
  const Tensor counted = not_equal(classes, options.ignore_index);
  const Tensor right = logical_and(counted, equal(cast(classes, Dtype::kI32), rows.best));
  return {sum(rows.loss), sum(cast(counted, Dtype::kI32)), sum(cast(right, Dtype::kI32))};
}

}  // namespace mstrain
