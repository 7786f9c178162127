// Rows of embedding tables in the memory of a device: how bags of them are pooled, and how they learn, with the bits of the tables that
// embedding_cache has in host memory. Composites; kernels are for f32.
#pragma once

#include "core/base/row_rules.h"
#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> table_row_ops();

// x[n, d], ids i32[m] below n, weights[m], offsets i32[k + 1] -> [k, d]: row b is the sum of weights[i] x[ids[i]] over positions i from
// offsets[b] to below offsets[b + 1], of those that there are, added in their order; none: zeros. The sums of a bag's rows forward,
// of a row's gradients backward. Derivatives take the memory of a matrix [k, m].
Tensor bag_sum(const Arg& x, const Arg& ids, const Arg& weights, const Arg& offsets);

struct LearnedRows {
  Tensor weights, state;
};

// Of tables weights[n, w] and state[n, state_floats(rule, w)] the rows slots[u] (i32, distinct where they learn) learn from
// gradients[u, w] where learns[u] (bool); all others stay. rate f32[]: of the step; that of FTRL is numbers.lr.
LearnedRows learn_rows(const Arg& weights, const Arg& state, const Arg& slots, const Arg& gradients,
                       const Arg& learns, const Arg& rate, row_rules::Rule rule,
                       const row_rules::Numbers& numbers);

// What an application of learn_rows was given.
row_rules::Rule rule_of(const Attrs& attrs);
row_rules::Numbers numbers_of(const Attrs& attrs);

}  // namespace mstrain
