// Advantage actor-critic, the synchronous form of Mnih et al. 2016.
#pragma once

#include "suites/reinforcement/algorithms/on_policy.h"

namespace mstrain::reinforcement {

class A2c final : public OnPolicy {
 public:
  A2c() {
    steps = 5;
    lambda = 1;
    normalize_advantages = false;
  }
  void fields(ConfigFields& v) override;
  // mean of -A log π + value_weight (V - target)^2 / 2 - entropy_weight H. Measures: policy_loss, value_loss, entropy.
  Loss loss(const Judgement& now, const OnPolicyBatch& then, const Knobs& knobs) const override;
};

}  // namespace mstrain::reinforcement
