// Log-probabilities of tokens by what they were drawn from, where that is not all of the vocabulary at temperature 1: ratios of policies are
// taken on the same support, or they would be off by the probability that was cut away.
#pragma once

#include "suites/transformer/text/causal_model.h"

namespace mstrain {

struct DrawnFrom {
  double temperature = 1;  // > 0; logits are divided by it
  // i32 [..., k]: the tokens that each could have been, -1 where there are fewer; null: all.
  Tensor support;
};

// What logits at a temperature are made of.
Tensor at_temperature(const Tensor& features, double temperature);

// log p of each target, [...], 0 where there is none (-100), of features[..., width] that are at no temperature yet.
Tensor drawn_log_probs(const CausalModel& model, const Params& p, const Tensor& features,
                       const Tensor& targets, const DrawnFrom& from);
// The same bits, of logits[..., vocab] that are. `support`: as in DrawnFrom.
Tensor drawn_log_probs(const Tensor& logits, const Tensor& targets, const Tensor& support);

}  // namespace mstrain
