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
  act_ = jit(
      [&model](const Params& p, const Tensor& observation, const std::optional<Tensor>& memory,
               const Tensor& noise, const Tensor& explore) {
        const Tensor seen = model.seen(p, observation, memory);
        return Acted(model.act(p, seen, noise, explore),
                     memory ? std::optional(seen) : std::nullopt);
      },
      {.name = "act"});
  best_ = jit(
      [&model](const Params& p, const Tensor& observation, const std::optional<Tensor>& memory) {
        const Tensor seen = model.seen(p, observation, memory);
        return Best{model.best_action(p, seen),
                    model.is_of_teams() ? std::nullopt : std::optional(model.worth(p, seen)),
                    memory ? std::optional(seen) : std::nullopt};
      },
      {.name = "best_action"});
  if (model.is_of_teams()) {
    team_worth_ =
        jit([&model](const Params& p, const Tensor& seen) { return model.worth(p, seen); },
            {.name = "worth"});
  }
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
                            std::span<float> actions, std::span<float> values) {
  by_rows(observations, memory_, actions,
          [&](const Tensor& observation, const std::optional<Tensor>& remembered, int64_t row) {
            const Best best = best_(params_, observation, remembered);
            if (best.worth) {
              copy_rows(*best.worth, row, 1, values);
            }
            return Acted(best.action, best.remembered);
          });
  to_bounds(env_.action, actions);
  if (team_worth_ != nullptr) {
    const auto agents = count(env_.agents);
    std::vector<float> of_teams(values.size() / agents);
    by_eights(observations, env_.agents * env_.observation.size(), 1, of_teams,
              [&](const Tensor& seen, int64_t) { return team_worth_(params_, seen); });
    for (size_t row = 0; row < values.size(); ++row) {
      values[row] = of_teams[row / agents];
    }
  }
}

void OffPolicyPrograms::end(std::span<const uint8_t> terminated,
                            std::span<const uint8_t> truncated) {
  forget(terminated, truncated, memory_);
}

}  // namespace mstrain::reinforcement
