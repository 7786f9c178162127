// Proximal policy optimisation (Schulman et al. 2017).
#pragma once

#include "suites/reinforcement/algorithms/on_policy.h"

namespace mstrain::reinforcement {

class Ppo final : public OnPolicy {
 public:
  double clip = 0.2;
  bool anneal_clip = false;
  std::optional<double> value_clip;
  std::optional<double> kl_target;  // adaptive penalty (section 4)
  std::optional<double> kl_stop;

  Ppo() {
    epochs = 4;
    minibatches = 4;
  }
  void fields(ConfigFields& v) override;

  // With ratio r of probabilities: mean of -min(r A, clip(r, 1 ± ε) A) + value_weight (V - target)^2 / 2 - entropy_weight H
  // + kl_weight KL(then, now). Measures: policy_loss, value_loss, entropy, kl (the estimate mean(r - 1 - log r)), clip_fraction.
  Loss loss(const Judgement& now, const OnPolicyBatch& then, const Knobs& knobs) const override;
  double clip_at(double progress) const override {
    return anneal_clip ? clip * (1 - progress) : clip;
  }
  std::optional<double> adaptive_kl() const override { return kl_target; }
  std::optional<double> last_kl() const override { return kl_stop; }
};

}  // namespace mstrain::reinforcement
