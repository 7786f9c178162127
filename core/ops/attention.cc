#include "core/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "core/ops/accumulation.h"
#include "core/ops/attention_form.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  if (in.size() < 3) {
    expect_inputs(in, 3);
  }
  const AttentionDims n = check_attention(in, AttentionForm(attrs, in), attrs);
  const Dtype dtype = in[0].dtype;
  return {{dtype, {n.b, n.t, n.h, n.e}}, {accumulation_dtype(dtype), {n.b, n.h, n.t}}};
}

Types infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  if (in.size() < 6) {
    expect_inputs(in, 6);
  }
  const auto forward = in.subspan(1, in.size() - 3);
  const Types outputs = infer(forward, attrs);
  const auto given = in.last(2);
  if (!(in[0] == outputs[0]) || !(given[0] == outputs[0]) || !(given[1] == outputs[1])) {
    throw ShapeError(fmt::format("{}, {} and {} do not fit the results {} and {}", to_string(in[0]),
                                 to_string(given[0]), to_string(given[1]), to_string(outputs[0]),
                                 to_string(outputs[1])));
  }
  const AttentionForm form(attrs, forward);
  Types types(forward.begin(), forward.begin() + 3);
  for (const size_t input : {form.bias, form.table}) {
    if (input != 0) {
      types.push_back(forward[input]);
    }
  }
  return types;
}

Tensors vjp(const Application& node, std::span<const Tensor> ct);

// Joins the batch of `x` with its first dim; one that is shared is repeated.
Tensor joined(const Tensor& x, bool batched, int64_t size) {
  return flatten(batched ? x : repeat_leading(x, size), 0, 1);
}

// A bias or a table of the joined batch of `size` times b; it is repeated within each sample where that shared it.
Tensor joined_bias(const Tensor& bias, bool batched, int64_t size, int64_t b) {
  const Tensor each = batched ? bias : repeat_leading(bias, size);
  Shape shape = each.shape();
  shape[1] = b;
  return flatten(broadcast_to(each, shape), 0, 1);
}

// Numbers of keys of the joined batch; none are repeated from one sample to the next.
Tensor joined_repeated(const Tensor& repeated, bool batched, int64_t size, int64_t b) {
  const Tensor each = batched ? repeated : repeat_leading(repeated, size);
  return flatten(where(equal(iota({size, b}, 1), 0), 0, each), 0, 1);
}

Tensor parted(const Tensor& x, int64_t size, int64_t b) {
  Shape shape = x.shape().with_inserted(0, size);
  shape[1] = b;
  return reshape(x, shape);
}

// Joins the dims of batches of the inputs; `first`: where the forward pass's begin. A bias that all of them share stays as it
// is where nothing comes after it.
Tensors batch_inputs(const Attrs& attrs, std::span<const Tensor> in, std::span<const bool> batched,
                     int64_t size, size_t first, size_t after) {
  Types types;
  for (size_t i = first; i < in.size() - after; ++i) {
    types.push_back(in[i].type());
    if (batched[i]) {
      types.back().shape = types.back().shape.without(0);
    }
  }
  const AttentionForm form(attrs, types);
  const int64_t b = types[0].shape[0];
  Tensors inputs;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool biases = i > first && (i - first == form.bias || i - first == form.table);
    const bool shared = after == 0 && !batched[i] && in[i].dim(0) == 1;
    const bool repeats = i > first && i - first == form.repeated;
    inputs.push_back(repeats   ? joined_repeated(in[i], batched[i], size, b)
                     : !biases ? joined(in[i], batched[i], size)
                     : shared  ? in[i]
                               : joined_bias(in[i], batched[i], size, b));
  }
  return inputs;
}

Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  const int64_t b = in[0].dim(batched[0] ? 1 : 0);
  Tensors results = apply(op, batch_inputs(attrs, in, batched, size, 0, 0), attrs, kHere);
  for (Tensor& result : results) {
    result = parted(result, size, b);
  }
  return results;
}

Tensors batch_grad(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size) {
  const int64_t b = in[0].dim(batched[0] ? 1 : 0);
  Tensors results = apply(op, batch_inputs(attrs, in, batched, size, 1, 2), attrs, kHere);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = parted(results[i], size, b);
    if (i >= 3 && in[i + 1].dim(batched[i + 1] ? 1 : 0) == 1) {
      results[i] = sum(results[i], {1}, true);
    }
  }
  return results;
}

// The share of all pairs of queries and keys that see each other, as far as types tell.
double visible_share(const AttentionForm& form, int64_t t, int64_t s) {
  if (!form.causal || form.start != 0 || s == 0) {
    return 1;
  }
  const double window = form.window > 0 && form.window < s
                            ? static_cast<double>(form.window) / static_cast<double>(s)
                            : 1;
  return t == s ? window * (1 - window / 2) : window;
}

// Products of the forward pass: scores and their sum over values. `in`: its inputs.
Cost cost_of(std::span<const TensorType> all, std::span<const TensorType> out,
             std::span<const TensorType> in, double products, const Attrs& attrs) {
  Cost cost = elementwise_cost(all, out, 0);
  const Shape& q = in[0].shape;
  const int64_t keys = in[1].shape[1];
  const double pairs =
      static_cast<double>(q[0] * q[2]) * static_cast<double>(q[1]) * static_cast<double>(keys);
  cost.flops = visible_share(AttentionForm(attrs, in), q[1], keys) * pairs *
               (2 * products * static_cast<double>(q[3]) + 12);
  return cost;
}
Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  return cost_of(in, out, in, 2, attrs);
}
Cost cost_grad(std::span<const TensorType> in, std::span<const TensorType> out,
               const Attrs& attrs) {
  return cost_of(in, out, in.subspan(1, in.size() - 3), 5, attrs);
}

constexpr OpDef kDefs[] = {
    {.name = "attention",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp,
     .batch = batch,
     .decompose = decompose_attention,
     .cost = cost,
     .layout = attention_layout,
     .samples = attention_samples,
     .precision = Precision::kNarrow},
    {.name = "attention_grad",
     .infer = infer_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_grad,
     .decompose = decompose_attention_grad,
     .cost = cost_grad,
     .layout = attention_grad_layout,
     .samples = attention_grad_samples},
    // Lanes of vmap draw alike, and the lanes of a joined batch would not: a batch is decomposed.
    {.name = "attention_dropout",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp,
     .decompose = decompose_attention,
     .cost = cost,
     .layout = attention_layout,
     .samples = attention_dropout_samples,
     .precision = Precision::kNarrow},
    {.name = "attention_dropout_grad",
     .infer = infer_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .decompose = decompose_attention_grad,
     .cost = cost_grad,
     .layout = attention_grad_layout,
     .samples = attention_dropout_grad_samples},
};

Tensors vjp(const Application& node, std::span<const Tensor> ct) {
  if (ct[1].defined()) {
    return vjp_by_decomposition(node, ct);
  }
  Tensors inputs{ct[0]};
  inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
  inputs.insert(inputs.end(), node.outputs.begin(), node.outputs.end());
  const bool draws = node.attrs.find("rate") != nullptr;
  Tensors results = apply(kDefs[draws ? 3 : 1], inputs, node.attrs, kHere);
  results.resize(node.inputs.size());  // masks, places and what is drawn have no derivative
  return results;
}

// The dims of a bias that the operation wants: [1|b, 1|h, t, s].
Tensor fitted_bias(const Tensor& bias, const Shape& scores, const SourceLocation& where) {
  check(bias.rank() <= 4 && broadcast_shape("attention", bias.shape(), scores, where) == scores,
        "attention: bias {} does not broadcast to scores {}, at {}", to_string(bias.shape()),
        to_string(scores), to_string(where));
  Shape shape = bias.shape();
  while (shape.rank() < 4) {
    shape = shape.with_inserted(0, 1);
  }
  return broadcast_to(reshape(bias, shape), {shape[0], shape[1], scores[2], scores[3]});
}

// The inputs and attributes of an application, for scores [b, h, t, s].
class Builder {
 public:
  Builder(Tensors inputs, const Shape& scores, const AttentionOptions& options,
          const SourceLocation& where)
      : inputs_(std::move(inputs)), scores_(scores), options_(options), where_(where) {}

  Tensor build() {
    const int64_t d = std::max<int64_t>(inputs_[0].dim(3), 1);
    attrs_ = {{"causal", options_.causal},
              {"scale", options_.scale.value_or(1 / std::sqrt(static_cast<double>(d)))}};
    if (options_.window != 0) {
      attrs_.set("window", options_.window);
    }
    if (options_.bias.defined()) {
      inputs_.push_back(fitted_bias(options_.bias, scores_, where_));
    }
    if (options_.relative) {
      add_relative(*options_.relative);
    }
    if (options_.key_mask.defined()) {
      add("masked", options_.key_mask, {scores_[0], scores_[3]});
    }
    check(options_.query_segments.defined() == options_.key_segments.defined(),
          "attention: segments of queries and of keys come together, at {}", to_string(where_));
    if (options_.query_segments.defined()) {
      add("segmented", options_.query_segments, {scores_[0], scores_[2]});
      add("segmented", options_.key_segments, {scores_[0], scores_[3]});
    }
    if (options_.repeated_keys.defined()) {
      add("repeating", options_.repeated_keys, {scores_[0]});
    }
    if (options_.start.defined()) {
      add("placed", options_.start, {scores_[0]});
    }
    const bool drops = options_.dropout && options_.dropout->rate != 0;
    if (drops) {
      add_dropout(*options_.dropout);
    }
    return apply(kDefs[drops ? 2 : 0], inputs_, attrs_, where_)[0];
  }

 private:
  void add(std::string_view flag, const Tensor& x, const Shape& shape) {
    check(broadcast_shape("attention", x.shape(), shape, where_) == shape,
          "attention: {} does not broadcast to {}, at {}", to_string(x.shape()), to_string(shape),
          to_string(where_));
    attrs_.set(flag, true);
    inputs_.push_back(broadcast_to(x, shape));
  }

  void add_relative(const RelativeBias& relative) {
    check(relative.table.rank() == 2,
          "attention: a table {} of relative biases is not [buckets, heads], at {}",
          to_string(relative.table.shape()), to_string(where_));
    attrs_.set("max_distance", relative.max_distance);
    attrs_.set("bidirectional", relative.bidirectional);
    inputs_.push_back(expand_dims(relative.table, 0));
  }

  void add_dropout(const AttentionDropout& dropout) {
    check(dropout.rate > 0 && dropout.rate < 1,
          "attention: a dropout rate of {} is outside of [0, 1), at {}", dropout.rate,
          to_string(where_));
    inputs_.push_back(dropout.key);
    inputs_.push_back(dropout.part ? dropout.part->offset : zeros({Dtype::kI32, {4}}));
    attrs_.set("rate", dropout.rate);
    attrs_.set("site", random_site(dropout.site));
    attrs_.set("whole", dropout.part ? dropout.part->whole : scores_);
  }

  Tensors inputs_;
  Shape scores_;
  const AttentionOptions& options_;
  const SourceLocation& where_;
  Attrs attrs_;
};

}  // namespace

std::span<const OpDef> attention_ops() { return kDefs; }

Tensor attention(const Arg& q, const Arg& k, const Arg& v, const AttentionOptions& options) {
  const Tensor& x = q.tensor();
  check(x.rank() == 4 && k.tensor().rank() == 4,
        "attention: q {} and k {} do not have 4 dims, at {}", to_string(x.shape()),
        to_string(k.tensor().shape()), to_string(q.where()));
  const Shape scores{x.dim(0), x.dim(2), x.dim(1), k.tensor().dim(1)};
  return Builder({x, k.tensor(), v.tensor()}, scores, options, q.where()).build();
}

}  // namespace mstrain
