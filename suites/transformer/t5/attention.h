// Attention as T5 has it: scores are not scaled, and a learned number is added to each by the distance of its two tokens.
#pragma once

#include "core/tensor/params.h"
#include "suites/transformer/t5/config.h"

namespace mstrain::t5 {

// Which keys a query sees, and how distances count.
struct Sight {
  Tensor distances;     // [relative_buckets, heads]; null: distances do not count
  bool causal = false;  // a query sees no key after it; distances count backwards alone
  Tensor start =
      {};  // i32 [b]: where the first query of a row stands among the keys; null: at the first
  Tensor seen_bs = {};         // bool: keys that are seen; null: all
  Tensor query_segments = {};  // i32 [b, t], and
  Tensor key_segments = {};    // i32 [b, s]: a query sees the keys of its segment alone; null: all
};

// q[b, t, heads, d_kv], k and v[b, s, heads, d_kv] -> [b, t, heads, d_kv], with dropout at the site p.path() in training.
Tensor attend(const Params& p, const T5Config& config, const Tensor& q_bthd, const Tensor& k_bshd,
              const Tensor& v_bshd, const Sight& sight);

}  // namespace mstrain::t5
