// Actors of boxes with critics of their actions: SAC, TD3 and DDPG.
#pragma once

#include "suites/reinforcement/algorithms/off_policy.h"

namespace mstrain::reinforcement {

// Soft actor-critic (Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"): a squashed normal, twin critics,
// and a temperature that keeps the entropy near target_entropy.
class Sac final : public OffPolicy {
 public:
  AutoOr<double> temperature;
  AutoOr<double> target_entropy;  // auto: -d, of actions in [-1, 1]

  Sac() { target_rate = 0.005; }
  void fields(ConfigFields& v) override;
  // Σ over critics of the mean of weight (Q(o, a) - r - γ^n (min Q'(o', a') - α log π(a'|o')))²; mean of α log π - min Q, with
  // critics as they are; -log α (mean log π + target_entropy). Measures: critic_loss, actor_loss, entropy, temperature, q.
  std::unique_ptr<OffPolicyModel> model(const EnvSpec& env,
                                        const NetworkConfig& network) const override;
  double explore_at(double /*progress*/) const override { return 0; }
};

// Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018); with ddpg's defaults Lillicrap et al. 2016.
class Td3 : public OffPolicy {
 public:
  double action_noise = 0.1;
  double target_noise = 0.2, target_clip = 0.5;
  int64_t delay = 2;

  Td3() { target_rate = 0.005; }
  void fields(ConfigFields& v) override;
  // Σ over critics of the mean of weight (Q(o, a) - r - γ^n min Q'(o', clip(μ'(o') + clip(noise))))²; mean of -Q(o, μ(o)).
  // Measures: critic_loss, actor_loss, q.
  std::unique_ptr<OffPolicyModel> model(const EnvSpec& env,
                                        const NetworkConfig& network) const override;
  double explore_at(double /*progress*/) const override { return action_noise; }
  int64_t policy_delay() const override { return delay; }
  virtual int64_t critics() const { return 2; }

 protected:
  void noise_fields(ConfigFields& v);
};

class Ddpg final : public Td3 {
 public:
  Ddpg() {
    delay = 1;
    target_noise = 0;
  }
  void fields(ConfigFields& v) override;
  int64_t critics() const override { return 1; }
};

}  // namespace mstrain::reinforcement
