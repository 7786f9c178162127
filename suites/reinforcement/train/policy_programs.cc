#include "suites/reinforcement/train/policy_programs.h"

#include "core/tensor/jit.h"
#include "suites/reinforcement/train/eight_rows.h"

namespace mstrain::reinforcement {

PolicyPrograms::PolicyPrograms(const ActorCritic& network, const Params& params)
    : network_(network), params_(params) {
  decide_ = jit(
      [&network](const Params& p, const Tensor& observation, const Tensor& noise,
                 const Memory& memory) { return network.decide(p, observation, noise, memory); },
      {.name = "decide"});
  value_ = jit([&network](const Params& p, const Tensor& observation,
                          const Memory& memory) { return network.value(p, observation, memory); },
               {.name = "value"});
  best_action_ =
      jit([&network](const Params& p, const Tensor& observation,
                     const Memory& memory) { return network.best_action(p, observation, memory); },
          {.name = "best_action"});
}

PolicyPrograms::Memory PolicyPrograms::eight_memories(std::span<const float> memory,
                                                      int64_t row) const {
  const int64_t width = network_.memory_size();
  return width == 0 ? std::nullopt : Memory(eight_rows(memory, row, width));
}

void PolicyPrograms::decide(std::span<const float> observations, std::span<const float> noise,
                            std::span<float> memory, std::span<float> actions,
                            std::span<float> log_probs, std::span<float> values) {
  for (int64_t row = 0; row < static_cast<int64_t>(values.size()); row += kRowsOfCall) {
    const Decision decision =
        decide_(params_, eight_rows(observations, row, network_.observation_size()),
                eight_rows(noise, row, network_.noise_size()), eight_memories(memory, row));
    copy_rows(decision.action_nd, row, network_.action_size(), actions);
    copy_rows(decision.log_prob_n, row, 1, log_probs);
    copy_rows(decision.value_n, row, 1, values);
    if (decision.memory_nm) {
      copy_rows(*decision.memory_nm, row, network_.memory_size(), memory);
    }
  }
}

void PolicyPrograms::value(std::span<const float> observations, std::span<const float> memory,
                           std::span<float> values) {
  by_eights(observations, network_.observation_size(), 1, values,
            [&](const Tensor& observation, int64_t row) {
              return value_(params_, observation, eight_memories(memory, row));
            });
}

void PolicyPrograms::begin(int64_t rows) {
  memory_.assign(count(rows * network_.memory_size()), 0.0F);
}

void PolicyPrograms::act(std::span<const float> observations, std::span<const uint8_t> /*legal*/,
                         std::span<float> actions, std::span<float> values) {
  by_eights(observations, network_.observation_size(), network_.action_size(), actions,
            [&](const Tensor& observation, int64_t row) {
              const Choice choice =
                  best_action_(params_, observation, eight_memories(memory_, row));
              copy_rows(choice.value_n, row, 1, values);
              if (choice.memory_nm) {
                copy_rows(*choice.memory_nm, row, network_.memory_size(), memory_);
              }
              return choice.action_nd;
            });
}

void PolicyPrograms::end(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated) {
  forget(terminated, truncated, memory_);
}

}  // namespace mstrain::reinforcement
