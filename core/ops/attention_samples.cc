// On which inputs the conformance matrix tries attention.
#include <cmath>

#include "core/ops/accumulation.h"
#include "core/ops/attention_form.h"

namespace mstrain {
namespace {

struct Sizes {
  int64_t b, queries, keys, h, d, e;
  bool causal;
  int64_t key_heads = 0;  // 0: h
};

// What may stand beside q, k and v, in the order of the inputs.
struct Options {
  std::optional<Shape> bias;
  int64_t window = 0;
  int64_t buckets = 0, max_distance = 8, tables = 1;
  bool bidirectional = false, masked = false, segmented = false, repeating = false, placed = false;
};

Sample sample_of(Dtype t, const Sizes& n, const Options& options = {}) {
  const int64_t key_heads = n.key_heads == 0 ? n.h : n.key_heads;
  Sample sample{{{{t, {n.b, n.queries, n.h, n.d}}, -1.5, 1.5},
                 {{t, {n.b, n.keys, key_heads, n.d}}, -1.5, 1.5},
                 {{t, {n.b, n.keys, key_heads, n.e}}}},
                {{"causal", n.causal}, {"scale", 1 / std::sqrt(static_cast<double>(n.d))}}};
  if (options.bias) {
    sample.inputs.push_back({{t, *options.bias}, -1, 1});
  }
  if (options.window > 0) {
    sample.attrs.set("window", options.window);
  }
  if (options.buckets > 0) {
    sample.attrs.set("max_distance", options.max_distance);
    sample.attrs.set("bidirectional", options.bidirectional);
    sample.inputs.push_back({{t, {options.tables, options.buckets, n.h}}, -1, 1});
  }
  if (options.masked) {
    sample.attrs.set("masked", true);
    sample.inputs.push_back({{Dtype::kBool, {n.b, n.keys}}, 0.4, 2});
  }
  if (options.segmented) {
    sample.attrs.set("segmented", true);
    sample.inputs.push_back({{Dtype::kI32, {n.b, n.queries}}, 0, 3});
    sample.inputs.push_back({{Dtype::kI32, {n.b, n.keys}}, 0, 3});
  }
  if (options.repeating) {  // keys differ: none are
    sample.attrs.set("repeating", true);
    sample.inputs.push_back({{Dtype::kI32, {n.b}}, 0, 1});
  }
  if (options.placed) {
    sample.attrs.set("placed", true);
    sample.inputs.push_back({{Dtype::kI32, {n.b}}, -1, static_cast<double>(n.keys)});
  }
  return sample;
}

}  // namespace

std::vector<Sample> attention_samples(Dtype t) {
  return {
      sample_of(t, {2, 5, 5, 2, 4, 4, true}),
      sample_of(t, {2, 5, 5, 6, 4, 3, true, 2}, {.window = 3}),  // three queries a key head
      sample_of(t, {2, 4, 6, 2, 4, 4, false},
                {.buckets = 8, .bidirectional = true, .masked = true}),
      sample_of(t, {1, 3, 7, 2, 5, 3, false}),
      sample_of(t, {2, 3, 5, 1, 8, 8, true}),  // a window that ends with the last key
      sample_of(t, {2, 2, 9, 4, 4, 16, true, 1}, {.window = 4, .placed = true}),  // into a cache
      sample_of(t, {1, 5, 3, 2, 4, 4, true}),  // the first queries see nothing
      sample_of(t, {2, 4, 4, 3, 4, 4, true}, {.bias = Shape{1, 3, 4, 4}}),  // one for each head
      sample_of(t, {2, 5, 5, 4, 3, 4, true, 2},
                {.bias = Shape{1, 1, 5, 5}, .buckets = 6, .tables = 2}),
      sample_of(t, {2, 3, 4, 2, 4, 5, false}, {.bias = Shape{2, 1, 3, 4}}),
      sample_of(t, {1, 1, 1, 1, 1, 1, true}),
      sample_of(t, {1, 33, 33, 1, 16, 16, true}),
      sample_of(t, {1, 33, 40, 2, 8, 8, true, 1},
                {.window = 20, .buckets = 7, .max_distance = 12, .masked = true, .placed = true}),
      sample_of(t, {2, 1, 21, 2, 5, 16, false}, {.bias = Shape{2, 1, 1, 21}}),  // the next token
      sample_of(t, {2, 1, 21, 4, 5, 16, true, 2}, {.buckets = 8, .masked = true, .placed = true}),
      sample_of(t, {1, 3, 40, 2, 16, 32, true}),
      sample_of(t, {3, 1, 21, 4, 5, 16, true, 2}, {.repeating = true, .placed = true}),
      sample_of(t, {2, 5, 7, 4, 4, 3, false, 2}, {.segmented = true}),
      sample_of(t, {2, 33, 40, 2, 8, 16, true, 1},
                {.buckets = 6, .masked = true, .segmented = true, .placed = true}),
      sample_of(t, {2, 1, 21, 2, 5, 16, false}, {.segmented = true}),
      sample_of(t, {1, 6, 12, 2, 4, 4, true, 1}, {.window = 5, .buckets = 6}),
      sample_of(t, {1, 12, 12, 2, 4, 4, true, 1},
                {.window = 5, .buckets = 6, .masked = true, .segmented = true}),
      sample_of(t, {0, 3, 3, 2, 4, 4, true}),
      sample_of(t, {0, 3, 3, 2, 4, 4, true, 1}, {.buckets = 4}),
      sample_of(t, {2, 0, 3, 2, 4, 4, false}),
  };
}

// Each of them, as some part of a larger draw.
std::vector<Sample> attention_dropout_samples(Dtype t) {
  std::vector<Sample> result = attention_samples(t);
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

namespace {

std::vector<Sample> with_cotangents(std::vector<Sample> result) {
  for (Sample& sample : result) {
    const TensorType& q = sample.inputs[0].type;
    const TensorType& v = sample.inputs[2].type;
    const TensorType out{q.dtype, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}};
    const TensorType lse{accumulation_dtype(q.dtype), {q.shape[0], q.shape[2], q.shape[1]}};
    sample.inputs.insert(sample.inputs.begin(), {out, -1, 1});
    sample.inputs.push_back({out, -1, 1});
    // Near the true logsumexp of a few scores, so that the probabilities stay in range.
    sample.inputs.push_back({lse, 1, 3});
  }
  return result;
}

}  // namespace

std::vector<Sample> attention_grad_samples(Dtype t) {
  return with_cotangents(attention_samples(t));
}
std::vector<Sample> attention_dropout_grad_samples(Dtype t) {
  return with_cotangents(attention_dropout_samples(t));
}

}  // namespace mstrain
