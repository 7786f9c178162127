// What algorithms have in common that learn from what their present policy did: a rollout of some steps of all environments,
// then updates on minibatches of it. Each is one class with keys and one loss.
#pragma once

#include <optional>
#include <span>

#include "suites/reinforcement/algorithms/actor_critic.h"
#include "suites/reinforcement/algorithms/algorithm_config.h"
#include "suites/reinforcement/algorithms/estimators.h"

namespace mstrain::reinforcement {

// A minibatch of b steps. Log-probabilities and values are those of when the actions were taken.
struct OnPolicyBatch {
  Tensor observation_bo, action_bd, log_prob_b, value_b, advantage_b, target_b;
  std::optional<Past>
      past;  // of a network that remembers: the b steps are all of some rows, by time

  template <class V>
  void fields(V& v) {
    v("observation", observation_bo);
    v("action", action_bd);
    v("log_prob", log_prob_b);
    v("value", value_b);
    v("advantage", advantage_b);
    v("target", target_b);
    v("past", past);
  }
};

// Numbers [] that change from update to update.
struct Knobs {
  Tensor lr, clip, kl_weight;

  template <class V>
  void fields(V& v) {
    v("lr", lr);
    v("clip", clip);
    v("kl_weight", kl_weight);
  }
};

class OnPolicy : public AlgorithmConfig {
 public:
  int64_t steps = 128;      // of every environment in a rollout
  int64_t epochs = 1;       // passes over it
  int64_t minibatches = 1;  // of a pass
  double lambda = 0.95;
  double entropy_weight = 0.01;
  double value_weight = 0.5;
  bool normalize_advantages = true;

  // Advantages and targets of the value, [T, n]. `ratios`: of the probabilities of the actions, now to when they were taken;
  // given where uses_ratios().
  virtual void estimate(const Trajectories& trajectories, std::span<const float> ratios,
                        std::span<float> advantages, std::span<float> targets) const;
  virtual bool uses_ratios() const { return false; }
  virtual Loss loss(const Judgement& now, const OnPolicyBatch& then, const Knobs& knobs) const = 0;

  // Of the surrogate's clipping, at this share of the run.
  virtual double clip_at(double /*progress*/) const { return 0; }
  // The wanted divergence of a pass, where the weight of its penalty adapts to it; and whether a pass as far off ends the
  // epochs.
  virtual std::optional<double> adaptive_kl() const { return std::nullopt; }
  virtual std::optional<double> last_kl() const { return std::nullopt; }

 protected:
  void common_fields(ConfigFields& v);
};

}  // namespace mstrain::reinforcement
