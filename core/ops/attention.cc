// attention{causal, scale}: (q, k, v[, bias]) -> (out, lse[b, h, t]); bias[1|b, 1|h, t, s]
// attention_grad{causal, scale}: (g, q, k, v[, bias], out, lse) -> (dq, dk, dv[, dbias])
// lse is the logsumexp of the visible scores in the accumulation type; -inf where none is visible.
// attention_dropout{…, rate, site, whole} and its gradient: two more inputs follow the bias, the key u32[2] and the offset i32[4]
// of this part [b, h, t, s] in the draw for `whole`. A probability stays, and is divided by 1 - rate, where its uniform f32 number
// (core/ops/random_draw.h) is below 1 - rate. lse is that of all visible scores.
#include "core/ops/attention.h"

#include <cmath>
#include <limits>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/dot_general.h"
#include "core/ops/random.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Inputs {
  int64_t b, t, s, h, d, e;
};

// Checks q, k, v and a bias, if there is one.
Inputs check_inputs(std::span<const TensorType> in, const Attrs& attrs) {
  const TensorType& q = in[0];
  const TensorType& k = in[1];
  const TensorType& v = in[2];
  attrs.flag("causal");
  attrs.number("scale");
  if (!is_floating(q.dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(q.dtype)),
                     "convert it with cast()");
  }
  for (const TensorType& type : in) {
    if (type.dtype != q.dtype) {
      throw ShapeError(
          fmt::format("dtypes differ: {} and {}", name_of(q.dtype), name_of(type.dtype)),
          "convert one with cast()");
    }
    if (type.shape.rank() != 4) {
      throw ShapeError(fmt::format("{} does not have 4 dims", to_string(type.shape)),
                       "q is [batch, queries, heads, dim]");
    }
  }
  const Inputs n{q.shape[0], q.shape[1], k.shape[1], q.shape[2], q.shape[3], v.shape[3]};
  if (!(k.shape == Shape{n.b, n.s, n.h, n.d}) || !(v.shape == Shape{n.b, n.s, n.h, n.e})) {
    throw ShapeError(fmt::format("q {}, k {} and v {} do not fit", to_string(q.shape),
                                 to_string(k.shape), to_string(v.shape)),
                     "they are [b, t, h, d], [b, s, h, d] and [b, s, h, e]");
  }
  if (n.s == 0) {
    throw ShapeError("there are no keys");
  }
  if (in.size() == 4) {
    const Shape& bias = in[3].shape;
    if ((bias[0] != 1 && bias[0] != n.b) || (bias[1] != 1 && bias[1] != n.h) || bias[2] != n.t ||
        bias[3] != n.s) {
      throw ShapeError(fmt::format("bias {} does not fit scores {}", to_string(bias),
                                   to_string(Shape{n.b, n.h, n.t, n.s})));
    }
  }
  return n;
}

// How many inputs say what is drawn.
size_t drawn_inputs(const Attrs& attrs) { return attrs.find("rate") != nullptr ? 2 : 0; }

void check_draw(std::span<const TensorType> in, const Inputs& n, const Attrs& attrs) {
  const double rate = attrs.number("rate");
  attrs.integer("site");
  if (!(rate > 0 && rate < 1)) {
    throw ShapeError(fmt::format("a dropout rate of {} is outside of (0, 1)", rate));
  }
  if (!(in[0] == TensorType{Dtype::kU32, {2}}) || !(in[1] == TensorType{Dtype::kI32, {4}})) {
    throw ShapeError(fmt::format("the key is {} and the offset {}, not u32[2] and i32[4]",
                                 to_string(in[0]), to_string(in[1])),
                     "make a key with rng_key()");
  }
  const Shape& whole = attrs.ints("whole");
  const Shape part{n.b, n.h, n.t, n.s};
  bool fits = whole.rank() == 4;
  for (int d = 0; fits && d < 4; ++d) {
    fits = part[d] <= whole[d];
  }
  if (!fits) {
    throw ShapeError(fmt::format("{} is no part of {}", to_string(part), to_string(whole)));
  }
}

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  const size_t drawn = drawn_inputs(attrs);
  expect_inputs(in, in.size() == drawn + 4 ? drawn + 4 : drawn + 3);
  const Inputs n = check_inputs(in.first(in.size() - drawn), attrs);
  if (drawn > 0) {
    check_draw(in.last(drawn), n, attrs);
  }
  const Dtype dtype = in[0].dtype;
  return {{dtype, {n.b, n.t, n.h, n.e}}, {accumulation_dtype(dtype), {n.b, n.h, n.t}}};
}

Types infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  const size_t drawn = drawn_inputs(attrs);
  expect_inputs(in, in.size() == drawn + 7 ? drawn + 7 : drawn + 6);
  const auto forward = in.subspan(1, in.size() - 3);
  const Types outputs = infer(forward, attrs);
  const auto given = in.last(2);
  if (!(in[0] == outputs[0]) || !(given[0] == outputs[0]) || !(given[1] == outputs[1])) {
    throw ShapeError(fmt::format("{}, {} and {} do not fit the results {} and {}", to_string(in[0]),
                                 to_string(given[0]), to_string(given[1]), to_string(outputs[0]),
                                 to_string(outputs[1])));
  }
  return Types(forward.begin(), forward.end() - static_cast<std::ptrdiff_t>(drawn));
}

// [b, h, t, s]: scaled, biased, and -inf where a key is not visible.
Tensor scores(const Attrs& attrs, const Tensor& q, const Tensor& k, const Tensor* bias) {
  Tensor x = dot_general(q, k, {"bthd", "bshd", "bhts"}) * attrs.number("scale");
  if (bias != nullptr) {
    x = x + widened(*bias);
  }
  if (attrs.flag("causal")) {
    const int64_t t = x.dim(2);
    const int64_t s = x.dim(3);
    const Tensor visible = less_equal(iota({t, s}, 1), iota({t, s}, 0) + (s - t));
    x = where(visible, x, -kInfinity);
  }
  return x;
}

// `x` [b, h, t, s] times what dropout multiplies probabilities by, which is 1 where nothing is drawn.
Tensor dropped(const Attrs& attrs, std::span<const Tensor> drawn, const Tensor& x) {
  if (drawn.empty()) {
    return x;
  }
  const double keep = 1 - attrs.number("rate");
  const Tensor u = apply1(random_ops()[0], {drawn[0], drawn[1]},
                          {{"kind", std::string("uniform")},
                           {"dtype", Dtype::kF32},
                           {"shape", x.shape()},
                           {"site", attrs.integer("site")},
                           {"whole", attrs.ints("whole")}},
                          kHere);
  return x * where(less(u, keep), full(x.shape(), 1 / keep, x.dtype()), 0);
}

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  const auto drawn = in.last(drawn_inputs(attrs));
  in = in.first(in.size() - drawn.size());
  const Tensor x = scores(attrs, widened(in[0]), widened(in[1]), in.size() == 4 ? &in[3] : nullptr);
  const Tensor greatest = stop_gradient(max(x, {3}, true));
  const Tensor shift = where(greater(greatest, -kInfinity), greatest, 0);
  const Tensor e = exp(x - shift);
  const Tensor total = sum(e, {3}, true);
  const Tensor some = greater(total, 0);
  const Tensor divisor = where(some, total, 1);
  const Tensor lse = where(some, log(divisor) + shift, -kInfinity);
  const Tensor p = dropped(attrs, drawn, e / divisor);
  const Tensor out = dot_general(p, widened(in[2]), {"bhts", "bshe", "bthe"});
  return {cast(out, in[0].dtype()), squeeze(lse, 3)};
}

// Flash attention's backward formulas (Dao et al. 2022): p from lse, dS = p (dP - Σ g out). With dropout's factors f the result
// is Σ p f v, so dP has f too, and Σ g out stays what it was.
Tensors decompose_grad(const Attrs& attrs, std::span<const Tensor> in) {
  const size_t draws = drawn_inputs(attrs);
  const auto drawn = in.subspan(in.size() - 2 - draws, draws);
  const bool biased = in.size() - draws == 7;
  const Tensor g = widened(in[0]);
  const Tensor q = widened(in[1]);
  const Tensor k = widened(in[2]);
  const Tensor v = widened(in[3]);
  const Tensor out = widened(in[in.size() - 2]);
  const Tensor lse = expand_dims(in[in.size() - 1], 3);
  const Tensor shift = where(greater(lse, -kInfinity), lse, 0);
  const Tensor p = exp(scores(attrs, q, k, biased ? &in[4] : nullptr) - shift);
  const Tensor dp = dropped(attrs, drawn, dot_general(g, v, {"bthe", "bshe", "bhts"}));
  const Tensor delta = expand_dims(transpose(sum(g * out, {3}), {0, 2, 1}), 3);
  const Tensor ds = p * (dp - delta);
  const double scale = attrs.number("scale");
  Tensors result{
      cast(dot_general(ds, k, {"bhts", "bshd", "bthd"}) * scale, in[1].dtype()),
      cast(dot_general(ds, q, {"bhts", "bthd", "bshd"}) * scale, in[2].dtype()),
      cast(dot_general(dropped(attrs, drawn, p), g, {"bhts", "bthe", "bshe"}), in[3].dtype())};
  if (biased) {
    Shape repeated;
    for (int i : {0, 1}) {
      if (in[4].dim(i) == 1) {
        repeated.push_back(i);
      }
    }
    result.push_back(cast(repeated.rank() == 0 ? ds : sum(ds, repeated, true), in[4].dtype()));
  }
  return result;
}

Tensors vjp(const Application& node, std::span<const Tensor> ct);

// Joins the batch of `x` with its first dim. One that is shared is repeated, unless it fits all of
// both.
Tensor joined(const Tensor& x, bool batched, int64_t size) {
  return flatten(batched ? x : repeat_leading(x, size), 0, 1);
}

// A bias of the joined batch; it is repeated within each sample where that shared it.
Tensor joined_bias(const Tensor& bias, bool batched, int64_t size, int64_t b) {
  Tensor each = batched ? bias : repeat_leading(bias, size);
  if (each.dim(1) == 1) {
    each = broadcast_to(each, {size, b, each.dim(2), each.dim(3), each.dim(4)});
  }
  return flatten(each, 0, 1);
}

Tensor parted(const Tensor& x, int64_t size, int64_t b) {
  Shape shape = x.shape().with_inserted(0, size);
  shape[1] = b;
  return reshape(x, shape);
}

Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  const int64_t b = in[0].dim(batched[0] ? 1 : 0);
  Tensors inputs;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool shared_bias = i == 3 && !batched[i] && in[i].dim(0) == 1;
    inputs.push_back(shared_bias ? in[i]
                     : i == 3    ? joined_bias(in[i], batched[i], size, b)
                                 : joined(in[i], batched[i], size));
  }
  Tensors results = apply(op, inputs, attrs, kHere);
  for (Tensor& result : results) {
    result = parted(result, size, b);
  }
  return results;
}

Tensors batch_grad(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size) {
  const bool biased = in.size() == 7;
  const int64_t b = in[0].dim(batched[0] ? 1 : 0);
  Tensors inputs;
  for (size_t i = 0; i < in.size(); ++i) {
    inputs.push_back(biased && i == 4 ? joined_bias(in[i], batched[i], size, b)
                                      : joined(in[i], batched[i], size));
  }
  Tensors results = apply(op, inputs, attrs, kHere);
  for (Tensor& result : results) {
    result = parted(result, size, b);
  }
  if (biased && in[4].dim(batched[4] ? 1 : 0) == 1) {
    results[3] = sum(results[3], {1}, true);
  }
  return results;
}

// Products of the forward pass: scores and their sum over values. A causal mask of a square hides
// half.
Cost cost_of(std::span<const TensorType> in, std::span<const TensorType> out, const TensorType& q,
             const TensorType& k, double products, const Attrs& attrs) {
  Cost cost = elementwise_cost(in, out, 0);
  const double pairs = static_cast<double>(q.shape[0] * q.shape[2]) *
                       static_cast<double>(q.shape[1]) * static_cast<double>(k.shape[1]);
  const double seen = attrs.flag("causal") && q.shape[1] == k.shape[1] ? 0.5 : 1;
  cost.flops = seen * pairs * (2 * products * static_cast<double>(q.shape[3]) + 12);
  return cost;
}
Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  return cost_of(in, out, in[0], in[1], 2, attrs);
}
Cost cost_grad(std::span<const TensorType> in, std::span<const TensorType> out,
               const Attrs& attrs) {
  return cost_of(in, out, in[1], in[2], 5, attrs);
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const auto add = [&](int64_t b, int64_t queries, int64_t keys, int64_t h, int64_t d, int64_t e,
                       bool causal, std::optional<Shape> bias) {
    Sample sample{{{{t, {b, queries, h, d}}, -1.5, 1.5},
                   {{t, {b, keys, h, d}}, -1.5, 1.5},
                   {{t, {b, keys, h, e}}}},
                  {{"causal", causal}, {"scale", 1 / std::sqrt(static_cast<double>(d))}}};
    if (bias) {
      sample.inputs.push_back({{t, *bias}, -1, 1});
    }
    result.push_back(sample);
  };
  add(2, 5, 5, 2, 4, 4, true, {});
  add(1, 3, 7, 2, 5, 3, false, {});
  add(2, 3, 5, 1, 8, 8, true, {});                 // a window that ends with the last key
  add(1, 5, 3, 2, 4, 4, true, {});                 // the first queries see nothing
  add(2, 4, 4, 3, 4, 4, true, Shape{1, 3, 4, 4});  // one bias for each head
  add(2, 3, 4, 2, 4, 5, false, Shape{2, 1, 3, 4});
  add(1, 1, 1, 1, 1, 1, true, {});
  add(1, 33, 33, 1, 16, 16, true, {});
  add(2, 1, 21, 2, 5, 16, false, Shape{2, 1, 1, 21});  // the next token of each text
  add(1, 3, 40, 2, 16, 32, true, {});
  add(0, 3, 3, 2, 4, 4, true, {});
  add(2, 0, 3, 2, 4, 4, false, {});
  return result;
}

// Each of them, as some part of a larger draw.
std::vector<Sample> samples_dropout(Dtype t) {
  std::vector<Sample> result = samples(t);
  for (Sample& sample : result) {
    const Shape q = sample.inputs[0].type.shape;
    const Shape k = sample.inputs[1].type.shape;
    sample.attrs.set("rate", 0.3);
    sample.attrs.set("site", int64_t{7} << 40);
    sample.attrs.set("whole", Shape{q[0] + 3, q[2] + 3, q[1] + 3, k[1] + 3});
    sample.inputs.push_back({{Dtype::kU32, {2}}, 0, 1e9});
    sample.inputs.push_back({{Dtype::kI32, {4}}, 0, 4});
  }
  return result;
}

std::vector<Sample> with_cotangents(std::vector<Sample> result) {
  for (Sample& sample : result) {
    Types types;
    for (const SampleInput& input : sample.inputs) {
      types.push_back(input.type);
    }
    const Types outputs = infer(types, sample.attrs);
    sample.inputs.insert(sample.inputs.begin(), {outputs[0], -1, 1});
    sample.inputs.push_back({outputs[0], -1, 1});
    // Near the true logsumexp of a few scores, so that the probabilities stay in range.
    sample.inputs.push_back({outputs[1], 1, 3});
  }
  return result;
}

std::vector<Sample> samples_grad(Dtype t) { return with_cotangents(samples(t)); }
std::vector<Sample> samples_dropout_grad(Dtype t) { return with_cotangents(samples_dropout(t)); }

constexpr OpDef kDefs[] = {
    {.name = "attention",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp,
     .batch = batch,
     .decompose = decompose,
     .cost = cost,
     .samples = samples,
     .precision = Precision::kNarrow},
    {.name = "attention_grad",
     .infer = infer_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .batch = batch_grad,
     .decompose = decompose_grad,
     .cost = cost_grad,
     .samples = samples_grad},
    // Lanes of vmap draw alike, and the lanes of a joined batch would not: a batch is decomposed.
    {.name = "attention_dropout",
     .infer = infer,
     .jvp = jvp_by_decomposition,
     .vjp = vjp,
     .decompose = decompose,
     .cost = cost,
     .samples = samples_dropout,
     .precision = Precision::kNarrow},
    {.name = "attention_dropout_grad",
     .infer = infer_grad,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_by_decomposition,
     .decompose = decompose_grad,
     .cost = cost_grad,
     .samples = samples_dropout_grad},
};

Tensors vjp(const Application& node, std::span<const Tensor> ct) {
  if (ct[1].defined()) {
    return vjp_by_decomposition(node, ct);
  }
  Tensors inputs{ct[0]};
  inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
  inputs.insert(inputs.end(), node.outputs.begin(), node.outputs.end());
  const size_t drawn = drawn_inputs(node.attrs);
  Tensors results = apply(kDefs[drawn > 0 ? 3 : 1], inputs, node.attrs, kHere);
  results.resize(results.size() + drawn);  // what is drawn has no derivative
  return results;
}

// The dims of a bias that the operation wants: [1|b, 1|h, t, s].
Tensor fitted_bias(const Tensor& bias, const Tensor& q, const Tensor& k,
                   const SourceLocation& where) {
  const Shape full{q.dim(0), q.dim(2), q.dim(1), k.dim(1)};
  check(bias.rank() <= 4 && broadcast_shape("attention", bias.shape(), full, where) == full,
        "attention: bias {} does not broadcast to scores {}, at {}", to_string(bias.shape()),
        to_string(full), to_string(where));
  Shape shape = bias.shape();
  while (shape.rank() < 4) {
    shape = shape.with_inserted(0, 1);
  }
  return broadcast_to(reshape(bias, shape), {shape[0], shape[1], full[2], full[3]});
}

}  // namespace

std::span<const OpDef> attention_ops() { return kDefs; }

Tensor attention(const Arg& q, const Arg& k, const Arg& v, const AttentionOptions& options) {
  const Tensor& x = q.tensor();
  check(x.rank() == 4 && k.tensor().rank() == 4,
        "attention: q {} and k {} do not have 4 dims, at {}", to_string(x.shape()),
        to_string(k.tensor().shape()), to_string(q.where()));
  const double scale =
      options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<int64_t>(x.dim(3), 1))));
  Tensors inputs{x, k.tensor(), v.tensor()};
  if (options.bias.defined()) {
    inputs.push_back(fitted_bias(options.bias, x, k.tensor(), q.where()));
  }
  Attrs attrs{{"causal", options.causal}, {"scale", scale}};
  if (!options.dropout || options.dropout->rate == 0) {
    return apply(kDefs[0], inputs, attrs, q.where())[0];
  }
  const AttentionDropout& dropout = *options.dropout;
  check(dropout.rate > 0 && dropout.rate < 1,
        "attention: a dropout rate of {} is outside of [0, 1), at {}", dropout.rate,
        to_string(q.where()));
  const Shape all{x.dim(0), x.dim(2), x.dim(1), k.tensor().dim(1)};
  inputs.push_back(dropout.key);
  inputs.push_back(dropout.part ? dropout.part->offset : zeros({Dtype::kI32, {4}}));
  attrs.set("rate", dropout.rate);
  attrs.set("site", random_site(dropout.site));
  attrs.set("whole", dropout.part ? dropout.part->whole : all);
  return apply(kDefs[2], inputs, attrs, q.where())[0];
}

}  // namespace mstrain
