// IMPALA's learner (Espeholt et al. 2018): actions of an older policy, corrected by V-trace.
#pragma once

#include "suites/reinforcement/algorithms/on_policy.h"

namespace mstrain::reinforcement {

class Impala final : public OnPolicy {
 public:
  double clip_rho = 1, clip_c = 1;

  Impala() {
    steps = 20;
    lambda = 1;
    normalize_advantages = false;
  }
  void fields(ConfigFields& v) override;
  bool uses_ratios() const override { return true; }
  void estimate(const Trajectories& trajectories, std::span<const float> ratios,
                std::span<float> advantages, std::span<float> targets) const override;
  // As A2c::loss(), of V-trace's advantages and targets.
  Loss loss(const Judgement& now, const OnPolicyBatch& then, const Knobs& knobs) const override;
};

}  // namespace mstrain::reinforcement
