// cross_entropy{ignore_index, label_smoothing}: (logits[..., n], targets[...]) -> (loss[...],
// logsumexp[...]) cross_entropy_grad{same}: (g[...], logits, targets, logsumexp[...]) -> dlogits
// logsumexp holds the true value for ignored rows too.
#include "core/ops/cross_entropy.h"

#include <limits>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/index_common.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"
#include "core/ops/statistics.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

// The type of the values that each row has.
TensorType check_rows(const TensorType& logits, const TensorType& targets, const Attrs& attrs) {
  if (!is_floating(logits.dtype)) {
    throw ShapeError(fmt::format("logits are {}", name_of(logits.dtype)),
                     "convert them with cast()");
  }
  expect_ids(targets);
  if (logits.shape.rank() == 0 || logits.shape.back() == 0) {
    throw ShapeError(fmt::format("logits {} have no classes", to_string(logits.shape)));
  }
  const Shape rows = logits.shape.without(logits.shape.rank() - 1);
  if (!(targets.shape == rows)) {
    throw ShapeError(fmt::format("targets are {}, the rows of logits {}", to_string(targets.shape),
                                 to_string(rows)));
  }
  const int64_t ignored = attrs.integer("ignore_index");
  if (ignored < std::numeric_limits<int32_t>::min() ||
      ignored > std::numeric_limits<int32_t>::max()) {
    throw ShapeError(fmt::format("ignore_index {} does not fit i32", ignored));
  }
  const double smoothing = attrs.number("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) {
    throw ShapeError(fmt::format("label smoothing {} is outside of [0, 1]", smoothing));
  }
  return {accumulation_dtype(logits.dtype), rows};
}

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  const TensorType row = check_rows(in[0], in[1], attrs);
  return {row, row};
}

Types infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 4);
  const TensorType row = check_rows(in[1], in[2], attrs);
  for (size_t i : {0, 3}) {
    if (!(in[i] == row)) {
      throw ShapeError(
          fmt::format("a value of each row is {}, not {}", to_string(in[i]), to_string(row)));
    }
  }
  return {in[1]};
}

Tensor column(const Tensor& rows) { return expand_dims(rows, rows.rank()); }

// Ignored rows, and targets that are a class in every row.
struct Targets {
  Tensor ignored;
  Tensor classes;
  Targets(const Attrs& attrs, const Tensor& targets)
      : ignored(equal(targets, attrs.integer("ignore_index"))),
        classes(where(ignored, 0, targets)) {}
};

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  const Tensor logits = widened(in[0]);
  const int last = logits.rank() - 1;
  const double smoothing = attrs.number("label_smoothing");
  const Targets targets(attrs, in[1]);
  const Tensor lse = logsumexp(logits, {last});
  Tensor loss =
      lse - (1 - smoothing) * squeeze(take_along(logits, column(targets.classes), last), last);
  if (smoothing != 0) {
    loss = loss - smoothing * mean(logits, {last});
  }
  return {where(targets.ignored, 0, loss), lse};
}

Tensors decompose_grad(const Attrs& attrs, std::span<const Tensor> in) {
  const Tensor logits = widened(in[1]);
  const int64_t n = logits.dim(-1);
  const double smoothing = attrs.number("label_smoothing");
  const Targets targets(attrs, in[2]);
  const Tensor g = where(targets.ignored, 0, in[0]);
  const Tensor chosen = (1 - smoothing) * one_hot(targets.classes, n, logits.dtype());
  const Tensor difference =
      exp(logits - column(in[3])) - chosen - smoothing / static_cast<double>(n);
  return {cast(column(g) * difference, in[1].dtype())};
}

Tensors vjp(const Application& node, std::span<const Tensor> ct);

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  Cost cost = elementwise_cost(in, out, 0);
  cost.flops = 12 * static_cast<double>(in[0].elements());
  return cost;
}
Cost cost_grad(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 12);
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& shape, Dtype ids, int64_t ignored, double smoothing) {
    const Shape rows = shape.without(shape.rank() - 1);
    result.push_back({{{{t, shape}, -4, 4}, {{ids, rows}, 0, static_cast<double>(shape.back())}},
                      {{"ignore_index", ignored}, {"label_smoothing", smoothing}}});
  };
  add({5, 7}, Dtype::kI32, -100, 0);
  add({3, 33}, Dtype::kI64, -100, 0.1);
  add({6, 3}, Dtype::kI32, 1, 0);  // a class that is ignored
  add({4, 2}, Dtype::kI64, 0, 0.3);
  add({65}, Dtype::kI32, -100, 0);
  add({2, 3, 1}, Dtype::kI32, -100, 0);
  add({2, 1030}, Dtype::kI32, -100, 0);
  add({0, 4}, Dtype::kI32, -100, 0);
  return result;
}

std::vector<Sample> samples_grad(Dtype t) {
  std::vector<Sample> result = samples(t);
  for (Sample& sample : result) {
    const TensorType row{accumulation_dtype(t), sample.inputs[1].type.shape};
    sample.inputs.insert(sample.inputs.begin(), {row, -2, 2});
    // Near the true logsumexp, so that the exponentials stay in range.
    sample.inputs.push_back({row, 4, 6});
  }
  return result;
}

// Rows are those of the targets.
std::vector<Way> layout_rows(const LayoutRequest& request) {
  const bool gradient = request.inputs.size() > 2;
  return gradient ? layout::leading<0>(request) : layout::leading<1>(request);
}

constexpr OpDef kDefs[] = {
    {.name = "cross_entropy",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp,
     .batch = batch_leading,
     .decompose = decompose,
     .cost = cost,
     .layout = layout_rows,
     .samples = samples},
    {.name = "cross_entropy_grad",
     .infer = infer_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_leading,
     .decompose = decompose_grad,
     .cost = cost_grad,
     .layout = layout_rows,
     .samples = samples_grad},
};

Tensors vjp(const Application& node, std::span<const Tensor> ct) {
  if (ct[1].defined()) {
    return vjp_by_decomposition(node, ct);
  }
  const Tensors inputs{ct[0], node.inputs[0], node.inputs[1], node.outputs[1]};
  return {apply(kDefs[1], inputs, node.attrs, kHere)[0], Tensor()};
}

}  // namespace

std::span<const OpDef> cross_entropy_ops() { return kDefs; }
const OpDef& kCrossEntropy = kDefs[0];
const OpDef& kCrossEntropyGrad = kDefs[1];

Tensor cross_entropy_rows(const Arg& logits, const Arg& targets,
                          const CrossEntropyOptions& options) {
  const Attrs attrs{{"ignore_index", options.ignore_index},
                    {"label_smoothing", options.label_smoothing}};
  return apply1(kDefs[0], {logits.tensor(), targets.tensor()}, attrs, logits.where());
}

Tensor cross_entropy(const Arg& logits, const Arg& targets, const CrossEntropyOptions& options) {
  const Tensor rows = cross_entropy_rows(logits, targets, options);
  const Tensor counted = cast(not_equal(targets, options.ignore_index), Dtype::kI32);
  return sum(rows) / cast(maximum(sum(counted), 1), rows.dtype());
}

Tensor soft_cross_entropy_rows(const Arg& logits, const Arg& targets, double label_smoothing) {
  const Dtype dtype = accumulation_dtype(logits.tensor().dtype());
  Tensor shares = cast(targets, dtype);
  if (label_smoothing != 0) {
    const Tensor each = sum(shares, {-1}, true) / static_cast<double>(shares.dim(-1));
    shares = (1 - label_smoothing) * shares + label_smoothing * each;
  }
  return -sum(shares * log_softmax(cast(logits, dtype)), {-1});
}

}  // namespace mstrain
