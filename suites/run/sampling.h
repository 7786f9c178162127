// Choosing a token from a row of logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/rng.h"

namespace mstrain {

struct SamplingOptions {
  bool greedy = false;
  double temperature = 1;        // > 0
  std::optional<int64_t> top_k;  // only the k most likely
  std::optional<double> top_p;   // then only the fewest whose probabilities sum up to p
  std::optional<double> min_p;   // then only those with p times the probability of the likeliest
  uint64_t seed = 0;
};

// Throws Error naming the option that makes no sense.
void check_sampling(const SamplingOptions& options);

// Greedy: the most likely, the lowest among equals. Otherwise one draw from `rng`, and `support` gets the tokens that it could have been.
int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, Rng& rng,
                     std::vector<int64_t>* support = nullptr);

}  // namespace mstrain
