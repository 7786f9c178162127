// Environments for tests: made by name, stepped with actions that are drawn from their space.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "suites/reinforcement/env/environment.h"
#include "suites/reinforcement/env/suite.h"

namespace mstrain::reinforcement {

inline std::unique_ptr<VectorEnv> env_of(const std::string& name, int64_t n,
                                         EnvConfig config = {}) {
  [[maybe_unused]] static const bool kKnown = (add_environment_suite(), true);
  config.name = name;
  return make_env(config, n);
}

// All that one step gives; equal to another's bit for bit.
struct Row {
  std::vector<float> observations, rewards, final_observations;
  std::vector<uint8_t> terminated, truncated;
  bool operator==(const Row&) const = default;
};

// Actions of n environments; drawn by `rng` from the legal ones.
struct Drawn {
  std::vector<int64_t> discrete;
  std::vector<double> box;
  Actions view() const {
    return {discrete.empty() ? nullptr : discrete.data(), box.empty() ? nullptr : box.data()};
  }
};

inline Drawn draw_actions(const VectorEnv& env, Rng& rng) {
  const EnvSpec& spec = env.spec();
  const int64_t rows = env.size() * spec.agents;
  Drawn out;
  if (!spec.action.is_discrete()) {
    for (int64_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < spec.action.low.size(); ++k) {
        out.box.push_back(rng.uniform(spec.action.low[k], spec.action.high[k]));
      }
    }
    return out;
  }
  std::vector<uint8_t> masks(static_cast<size_t>(rows * spec.action.n), 1);
  if (spec.masks) {
    env.action_masks(masks.data());
  }
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<int64_t> legal;
    for (int64_t a = 0; a < spec.action.n; ++a) {
      if (masks[static_cast<size_t>(i * spec.action.n + a)] != 0) {
        legal.push_back(a);
      }
    }
    out.discrete.push_back(legal.empty() ? 0 : legal[rng.below(legal.size())]);
  }
  return out;
}

inline Row step_of(VectorEnv& env, const Actions& actions) {
  const EnvSpec& spec = env.spec();
  const auto n = static_cast<size_t>(env.size()), rows = n * static_cast<size_t>(spec.agents);
  const size_t numbers = rows * static_cast<size_t>(spec.observation.size());
  Row row{std::vector<float>(numbers), std::vector<float>(rows), std::vector<float>(numbers),
          std::vector<uint8_t>(n), std::vector<uint8_t>(n)};
  env.step(actions, {row.observations.data(), row.rewards.data(), row.terminated.data(),
                     row.truncated.data(), row.final_observations.data()});
  return row;
}

inline std::vector<float> observed(const VectorEnv& env) {
  std::vector<float> out(
      static_cast<size_t>(env.size() * env.spec().agents * env.spec().observation.size()));
  env.observe(out.data());
  return out;
}

inline std::vector<double> states_of(const VectorEnv& env) {
  std::vector<double> out(static_cast<size_t>(env.size() * env.spec().state_size));
  env.get_states(out.data());
  return out;
}

}  // namespace mstrain::reinforcement
