#include "mcts/search/gumbel.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mstrain::mcts {

std::vector<uint32_t> halving_schedule(uint32_t considered, uint32_t simulations) {
  considered = std::max(considered, 1U);
  std::vector<uint32_t> schedule;
  schedule.reserve(simulations);
  const uint32_t rounds = std::max<uint32_t>(1, std::bit_width(considered - 1));
  uint32_t visits = 0;
  for (uint32_t active = considered; schedule.size() < simulations;
       active = std::max(2U, active / 2)) {
    active = std::min(active, considered);
    const uint32_t each = std::max(1U, simulations / (rounds * active));
    for (uint32_t v = 0; v < each; ++v, ++visits) {
      schedule.insert(schedule.end(), active, visits);
    }
  }
  schedule.resize(simulations);
  return schedule;
}

float mixed_value(float raw_value, float visits, float prior_value_sum, float visited_prior) {
  if (visits <= 0 || visited_prior <= 0) {
    return raw_value;
  }
  return (raw_value + visits * prior_value_sum / visited_prior) / (1 + visits);
}

float value_range(float spread, const GumbelScale& scale) {
  return std::max({spread, scale.spread, 1e-8F});
}

void transform_values(std::span<const uint32_t> visits, std::span<const float> means, float mixed,
                      const GumbelScale& scale, std::span<float> out) {
  float low = mixed;
  float high = mixed;
  uint32_t most = 0;
  for (size_t i = 0; i < visits.size(); ++i) {
    if (visits[i] > 0) {
      low = std::min(low, means[i]);
      high = std::max(high, means[i]);
      most = std::max(most, visits[i]);
    }
  }
  const float factor =
      (scale.visit + static_cast<float>(most)) * scale.scale / value_range(high - low, scale);
  for (size_t i = 0; i < visits.size(); ++i) {
    out[i] = ((visits[i] > 0 ? means[i] : mixed) - low) * factor;
  }
}

void softmax(std::span<const float> logits, std::span<float> out) {
  const float top = *std::max_element(logits.begin(), logits.end());
  float total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    out[i] = std::exp(logits[i] - top);
    total += out[i];
  }
  for (float& p : out) {
    p /= total;
  }
}

}  // namespace mstrain::mcts
