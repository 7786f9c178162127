#include "suites/reinforcement/algorithms/ppo.h"

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/statistics.h"

namespace mstrain::reinforcement {
namespace {

// Squared errors of the value, [b]; where it may not move by more than `clip`, the worse of both (the authors' own programs).
Tensor value_errors(const Judgement& now, const OnPolicyBatch& then,
                    const std::optional<double>& clip) {
  const Tensor error_b = square(now.value_n - then.target_b);
  if (!clip) {
    return error_b;
  }
  const Tensor moved_b = then.value_b + mstrain::clip(now.value_n - then.value_b, -*clip, *clip);
  return maximum(error_b, square(moved_b - then.target_b));
}

}  // namespace

Loss Ppo::loss(const Judgement& now, const OnPolicyBatch& then, const Knobs& knobs) const {
  const Tensor log_ratio_b = now.log_prob_n - then.log_prob_b;
  const Tensor ratio_b = exp(log_ratio_b);
  const Tensor clipped_b = minimum(maximum(ratio_b, 1 - knobs.clip), 1 + knobs.clip);
  const Tensor policy_loss =
      -mean(minimum(ratio_b * then.advantage_b, clipped_b * then.advantage_b));
  const Tensor value_loss = 0.5 * mean(value_errors(now, then, value_clip));
  const Tensor entropy = mean(now.entropy_n);
  const Tensor kl = mean(ratio_b - 1 - log_ratio_b);
  const Tensor clip_fraction = mean(cast(abs(ratio_b - 1) > knobs.clip, Dtype::kF32));
  Tensor loss = policy_loss + value_weight * value_loss - entropy_weight * entropy;
  if (kl_target) {
    loss = loss + knobs.kl_weight * kl;
  }
  return {loss,
          {{"policy_loss", policy_loss},
           {"value_loss", value_loss},
           {"entropy", entropy},
           {"kl", kl},
           {"clip_fraction", clip_fraction}}};
}

void Ppo::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"ppo"}));
  common_fields(v);
  v("clip", clip, "of the ratio of probabilities, around 1",
    rule::positive().elsewhere_called({"clip_range", "clip_coef"}));
  v("anneal_clip", anneal_clip, "clip falls to 0 over the run");
  v("value_clip", value_clip, "the value moves by at most so much in an iteration; null: freely",
    rule::positive().elsewhere_called({"clip_range_vf"}));
  v("kl_target", kl_target,
    "divergence of policies that the weight of a penalty, of 1e-6 to 1e6, adapts to; null: there "
    "is none",
    rule::positive());
  v("kl_stop", kl_stop, "a pass that diverges by more ends the iteration; null: never",
    rule::positive().elsewhere_called({"target_kl"}));
}

}  // namespace mstrain::reinforcement
