// An actor-critic's programs for acting, on rows by eights (eight_rows.h).
#pragma once

#include <functional>

#include "suites/reinforcement/train/agent.h"
#include "suites/reinforcement/train/rollout.h"

namespace mstrain::reinforcement {

class PolicyPrograms final : public Policy, public Player {
 public:
  // `params` are looked at whenever it acts; both must outlive it.
  PolicyPrograms(const ActorCritic& network, const Params& params);

  void decide(std::span<const float> observations, std::span<const float> noise,
              std::span<float> actions, std::span<float> log_probs,
              std::span<float> values) override;
  void value(std::span<const float> observations, std::span<float> values) override;
  void act(std::span<const float> observations, std::span<float> actions) override;

 private:
  const ActorCritic& network_;
  const Params& params_;
  std::function<Decision(const Params&, const Tensor&, const Tensor&)> decide_;
  std::function<Tensor(const Params&, const Tensor&)> value_, best_action_;
};

}  // namespace mstrain::reinforcement
