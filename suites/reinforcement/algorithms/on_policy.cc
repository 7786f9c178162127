#include "suites/reinforcement/algorithms/on_policy.h"

namespace mstrain::reinforcement {

void OnPolicy::estimate(const Trajectories& trajectories, std::span<const float> /*ratios*/,
                        std::span<float> advantages, std::span<float> targets) const {
  gae(trajectories, discount, lambda, advantages);
  for (size_t i = 0; i < targets.size(); ++i) {
    targets[i] = advantages[i] + trajectories.values[i];
  }
}

void OnPolicy::common_fields(ConfigFields& v) {
  v("steps", steps, "of every environment between two updates",
    rule::at_least(1).at_most(1e6).elsewhere_called({"n_steps", "num_steps", "rollout_length"}));
  v("epochs", epochs, "passes over what these steps gave",
    rule::at_least(1).at_most(1000).elsewhere_called({"n_epochs", "update_epochs"}));
  v("minibatches", minibatches,
    "updates of a pass; each takes equally many steps of every environment, so it divides steps",
    rule::at_least(1).elsewhere_called({"num_minibatches"}).elsewhere_measured_by({"batch_size"}));
  v("discount", discount, "of what comes a step later",
    rule::at_least(0).at_most(1).elsewhere_called({"gamma"}));
  v("lambda", lambda, "of advantages: 0: one step, 1: all that follow",
    rule::at_least(0).at_most(1).elsewhere_called({"gae_lambda"}));
  v("entropy_weight", entropy_weight, "of the policy's entropy, which the loss rewards",
    rule::at_least(0).elsewhere_called({"ent_coef", "entropy_coef"}));
  v("value_weight", value_weight, "of the value's squared error in the loss",
    rule::at_least(0).elsewhere_called({"vf_coef", "value_coef"}));
  v("normalize_advantages", normalize_advantages,
    "in each minibatch, of more than one step, to mean 0 and deviation 1",
    rule::elsewhere_called({"normalize_advantage", "norm_adv"}));
}

}  // namespace mstrain::reinforcement
