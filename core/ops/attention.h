// Scaled dot-product attention of many heads (Vaswani et al. 2017). A composite: fast kernels never
// make the scores.
//
// q[b, t, h, d], k[b, s, h, d], v[b, s, h, e] -> [b, t, h, e], s > 0. Any strides: q, k and v may
// be slices of one tensor.
// out = softmax(scale q kᵀ + bias) v over the s keys; with `causal`, query i sees the keys
// j <= i + (s - t). A query that sees no key (or whose scores are all -inf) gives 0.
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

struct AttentionOptions {
  bool causal = false;
  std::optional<double> scale;  // 1 / sqrt(d)
  Tensor bias;                  // added to the scaled scores; broadcasts to [b, h, t, s]
  std::optional<AttentionDropout> dropout = {};
};

Tensor attention(const Arg& q, const Arg& k, const Arg& v, const AttentionOptions& options = {});

}  // namespace mstrain
