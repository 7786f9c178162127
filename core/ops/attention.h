// Scaled dot-product attention of many heads (Vaswani et al. 2017). A composite: fast kernels never
// make the scores.
//
// q[b, t, h, d], k[b, s, g, d], v[b, s, g, e] -> [b, t, h, e], s > 0. Any strides: q, k and v may
// be slices of one tensor. g divides h: query head i reads key head i / (h / g).
// out = softmax(scale q kᵀ + biases) v over the keys that a query sees. Query i stands at place
// i + start among the keys. A query that sees no key (or whose scores are all -inf) gives 0.
#pragma once

#include <optional>

#include "core/ops/random.h"

namespace mstrain {

std::span<const OpDef> attention_ops();

// Each probability stays, divided by 1 - rate, where its number of a draw [b, h, t, s] of uniform() is below 1 - rate; else it
// is 0. Fast kernels draw inside their blocks.
struct AttentionDropout {
  double rate = 0;  // in [0, 1)
  Tensor key;
  std::string_view site = "dropout";
  std::optional<RandomPart> part = {};  // none: the draw is the whole
};

// A learned bias of a head by the distance from query to key (T5, Raffel et al. 2020): small
// distances have buckets of their own, greater ones share buckets that widen up to max_distance,
// beyond which the last one holds. Where bidirectional, one half of the buckets is for keys behind
// the query; else those are all in bucket 0.
struct RelativeBias {
  Tensor table;                // [buckets, heads]; at least 2 buckets, 4 where bidirectional
  int64_t max_distance = 128;  // above the distances with buckets of their own
  bool bidirectional = true;
};

struct AttentionOptions {
  bool causal = false;          // query i sees the keys up to its place
  std::optional<double> scale;  // 1 / sqrt(d)
  Tensor bias;                  // added to the scaled scores; broadcasts to [b, h, t, s]
  std::optional<AttentionDropout> dropout = {};
  int64_t window =
      0;  // with causal: a query sees that many keys, the one at its place the last; 0: all
  // i32, [] or [b]: the place of the first query, as where keys lie in a cache that is longer than
  // what was written; without: s - t, the queries are the last. It may change from run to run.
  Tensor start;
  Tensor key_mask;  // bool, broadcasts to [b, s]: true where any query may see the key
  // i32, broadcast to [b, t] and [b, s]; both or none: a query sees the keys of its segment alone, as where a row holds
  // several texts. Those of a segment should be neighbours: fast kernels leave out what lies before and after them.
  Tensor query_segments, key_segments;
  // i32 [b], a promise: the first so many keys and values of a batch element are those of the element before it, as where
  // sequences go on from one prompt, and may be read once. The first element's means nothing.
  Tensor repeated_keys;
  std::optional<RelativeBias> relative = {};  // added like bias
};

Tensor attention(const Arg& q, const Arg& k, const Arg& v, const AttentionOptions& options = {});

}  // namespace mstrain
