#include "suites/reinforcement/algorithms/a2c.h"

#include "core/ops/elementwise.h"
#include "core/ops/statistics.h"

namespace mstrain::reinforcement {

Loss A2c::loss(const Judgement& now, const OnPolicyBatch& then, const Knobs& /*knobs*/) const {
  const Tensor policy_loss = -mean(now.log_prob_n * then.advantage_b);
  const Tensor value_loss = 0.5 * mean(square(now.value_n - then.target_b));
  const Tensor entropy = mean(now.entropy_n);
  return {policy_loss + value_weight * value_loss - entropy_weight * entropy,
          {{"policy_loss", policy_loss}, {"value_loss", value_loss}, {"entropy", entropy}}};
}

void A2c::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"a2c"}));
  common_fields(v);
}

}  // namespace mstrain::reinforcement
