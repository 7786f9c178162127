// Attention as a layer: with dropout of probabilities, and with projections.
#pragma once

#include "core/nn/layers.h"
#include "core/ops/attention.h"

namespace mstrain {

// attention(q, k, v) of core/ops/attention.h, in training with dropout of the probabilities at the site p.path().
Tensor attention(const Params& p, const Tensor& q_bthd, const Tensor& k_bshd, const Tensor& v_bshe,
                 double dropout_rate, const AttentionOptions& options = {});

struct MultiHeadAttentionOptions {
  int64_t heads = 1;
  bool causal = false;
  double dropout = 0;  // of the probabilities
  bool bias = true;    // in the projections
};

// Queries of x[b, t, c] over the positions of memory[b, s, c'] -> [b, t, c]; heads must divide c.
// Parameters: q_proj, k_proj, v_proj, out_proj; weights [c or c', heads, head_dim] and [heads, head_dim, c].
Tensor multi_head_attention(const Params& p, const Tensor& x_btc, const Tensor& memory_bsc,
                            const MultiHeadAttentionOptions& options);

}  // namespace mstrain
