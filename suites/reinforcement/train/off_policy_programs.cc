#include "suites/reinforcement/train/off_policy_programs.h"

#include "core/ops/build.h"
#include "core/tensor/jit.h"
#include "suites/reinforcement/train/eight_rows.h"
#include "suites/reinforcement/train/rollout.h"

namespace mstrain::reinforcement {

void to_bounds(const Space& space, std::span<float> actions) {
  for (size_t i = 0; !space.is_discrete() && i < actions.size(); ++i) {
    const size_t number = i % count(space.size());
    const double middle = 0.5 * (space.low[number] + space.high[number]);
    const double half = 0.5 * (space.high[number] - space.low[number]);
    actions[i] = static_cast<float>(middle + half * static_cast<double>(actions[i]));
  }
}

OffPolicyPrograms::OffPolicyPrograms(const OffPolicyModel& model, const EnvSpec& env,
                                     const Params& params)
    : env_(env),
      noise_size_(model.noise_size()),
      memory_size_(model.memory_size()),
      params_(params) {
  const auto acted = [](const Tensor& action, const Tensor& seen, bool remembers) {
    return Acted(action, remembers ? std::optional(seen) : std::nullopt);
  };
  act_ = jit(
      [&model, acted](const Params& p, const Tensor& observation,
                      const std::optional<Tensor>& memory, const Tensor& noise,
                      const Tensor& explore) {
        const Tensor seen = model.seen(p, observation, memory);
        return acted(model.act(p, seen, noise, explore), seen, memory.has_value());
      },
      {.name = "act"});
  best_ = jit(
      [&model, acted](const Params& p, const Tensor& observation,
                      const std::optional<Tensor>& memory) {
        const Tensor seen = model.seen(p, observation, memory);
        return acted(model.best_action(p, seen), seen, memory.has_value());
      },
      {.name = "best_action"});
}

std::optional<Tensor> OffPolicyPrograms::eight_memories(std::span<const float> memory,
                                                        int64_t row) const {
  return memory_size_ == 0 ? std::nullopt : std::optional(eight_rows(memory, row, memory_size_));
}

void OffPolicyPrograms::by_rows(
    std::span<const float> observations, std::span<float> memory, std::span<float> actions,
    const std::function<Acted(const Tensor&, const std::optional<Tensor>&, int64_t)>& program)
    const {
  by_eights(observations, env_.observation.size(), env_.action.size(), actions,
            [&](const Tensor& observation, int64_t row) {
              const auto [action, remembered] =
                  program(observation, eight_memories(memory, row), row);
              if (remembered) {
                copy_rows(*remembered, row, memory_size_, memory);
              }
              return action;
            });
}

void OffPolicyPrograms::explore(std::span<const float> observations, std::span<const float> noise,
                                double explore, std::span<float> memory, std::span<float> actions) {
  by_rows(observations, memory, actions,
          [&](const Tensor& observation, const std::optional<Tensor>& remembered, int64_t row) {
            return act_(params_, observation, remembered, eight_rows(noise, row, noise_size_),
                        scalar(explore));
          });
}

void OffPolicyPrograms::begin(int64_t rows) { memory_.assign(count(rows * memory_size_), 0.0F); }

void OffPolicyPrograms::act(std::span<const float> observations, std::span<const uint8_t> /*legal*/,
                            std::span<float> actions) {
  by_rows(observations, memory_, actions,
          [&](const Tensor& observation, const std::optional<Tensor>& remembered, int64_t) {
            return best_(params_, observation, remembered);
          });
  to_bounds(env_.action, actions);
}

void OffPolicyPrograms::end(std::span<const uint8_t> terminated,
                            std::span<const uint8_t> truncated) {
  forget(terminated, truncated, memory_);
}

}  // namespace mstrain::reinforcement
