#include "suites/reinforcement/algorithms/impala.h"

#include "core/ops/elementwise.h"
#include "core/ops/statistics.h"

namespace mstrain::reinforcement {

void Impala::estimate(const Trajectories& trajectories, std::span<const float> ratios,
                      std::span<float> advantages, std::span<float> targets) const {
  v_trace(trajectories, ratios, discount, lambda, clip_rho, clip_c, targets, advantages);
}

Loss Impala::loss(const Judgement& now, const OnPolicyBatch& then, const Knobs& /*knobs*/) const {
  const Tensor policy_loss = -mean(now.log_prob_n * then.advantage_b);
  const Tensor value_loss = 0.5 * mean(square(now.value_n - then.target_b));
  const Tensor entropy = mean(now.entropy_n);
  const Tensor log_ratio_b = now.log_prob_n - then.log_prob_b;
  return {policy_loss + value_weight * value_loss - entropy_weight * entropy,
          {{"policy_loss", policy_loss},
           {"value_loss", value_loss},
           {"entropy", entropy},
           {"kl", mean(exp(log_ratio_b) - 1 - log_ratio_b)}}};
}

void Impala::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"impala"}));
  common_fields(v);
  v("clip_rho", clip_rho, "most that a ratio of probabilities counts in a step's own error",
    rule::positive().elsewhere_called({"rho_bar", "clip_rho_threshold"}));
  v("clip_c", clip_c, "and in what later steps contribute",
    rule::positive().elsewhere_called({"c_bar", "clip_pg_rho_threshold"}));
}

}  // namespace mstrain::reinforcement
