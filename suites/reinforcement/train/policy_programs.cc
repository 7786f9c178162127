#include "suites/reinforcement/train/policy_programs.h"

#include "core/tensor/jit.h"
#include "suites/reinforcement/train/eight_rows.h"

namespace mstrain::reinforcement {

PolicyPrograms::PolicyPrograms(const ActorCritic& network, const Params& params)
    : network_(network), params_(params) {
  decide_ = jit([&network](const Params& p, const Tensor& observation,
                           const Tensor& noise) { return network.decide(p, observation, noise); },
                {.name = "decide"});
  value_ = jit([&network](const Params& p,
                          const Tensor& observation) { return network.value(p, observation); },
               {.name = "value"});
  best_action_ =
      jit([&network](const Params& p,
                     const Tensor& observation) { return network.best_action(p, observation); },
          {.name = "best_action"});
}

void PolicyPrograms::decide(std::span<const float> observations, std::span<const float> noise,
                            std::span<float> actions, std::span<float> log_probs,
                            std::span<float> values) {
  for (int64_t row = 0; row < static_cast<int64_t>(values.size()); row += kRowsOfCall) {
    const Decision decision =
        decide_(params_, eight_rows(observations, row, network_.observation_size()),
                eight_rows(noise, row, network_.noise_size()));
    copy_rows(decision.action_nd, row, network_.action_size(), actions);
    copy_rows(decision.log_prob_n, row, 1, log_probs);
    copy_rows(decision.value_n, row, 1, values);
  }
}

void PolicyPrograms::value(std::span<const float> observations, std::span<float> values) {
  by_eights(observations, network_.observation_size(), 1, values,
            [&](const Tensor& observation, int64_t) { return value_(params_, observation); });
}

void PolicyPrograms::act(std::span<const float> observations, std::span<float> actions) {
  by_eights(observations, network_.observation_size(), network_.action_size(), actions,
            [&](const Tensor& observation, int64_t) { return best_action_(params_, observation); });
}

}  // namespace mstrain::reinforcement
