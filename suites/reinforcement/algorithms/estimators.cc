#include "suites/reinforcement/algorithms/estimators.h"

#include <algorithm>

namespace mstrain::reinforcement {
namespace {

bool ends(const Trajectories& t, size_t at) {
  return t.terminated[at] != 0 || t.truncated[at] != 0;
}

// What follows step `at`, which no other of the trajectory need do: `next` where the episode goes on.
double following(const Trajectories& t, size_t at, double next) {
  return t.terminated[at] != 0 ? 0 : t.truncated[at] != 0 ? t.final_values[at] : next;
}

}  // namespace

void gae(const Trajectories& t, double discount, double lambda, std::span<float> advantages) {
  const auto n = static_cast<size_t>(t.envs);
  for (size_t env = 0; env < n; ++env) {
    double next_value = t.last_values[env];
    double next_advantage = 0;
    for (auto step = static_cast<size_t>(t.steps); step-- > 0;) {
      const size_t at = step * n + env;
      const double delta = t.rewards[at] + discount * following(t, at, next_value) - t.values[at];
      next_advantage = delta + (ends(t, at) ? 0 : discount * lambda * next_advantage);
      next_value = t.values[at];
      advantages[at] = static_cast<float>(next_advantage);
    }
  }
}

void v_trace(const Trajectories& t, std::span<const float> ratios, double discount, double lambda,
             double clip_rho, double clip_c, std::span<float> targets,
             std::span<float> advantages) {
  const auto n = static_cast<size_t>(t.envs);
  for (size_t env = 0; env < n; ++env) {
    double next_value = t.last_values[env];
    double next_target = t.last_values[env];
    for (auto step = static_cast<size_t>(t.steps); step-- > 0;) {
      const size_t at = step * n + env;
      const double rho = std::min<double>(clip_rho, ratios[at]);
      const double c = lambda * std::min<double>(clip_c, ratios[at]);
      const double value = t.values[at];
      const double delta = rho * (t.rewards[at] + discount * following(t, at, next_value) - value);
      const double correction = ends(t, at) ? 0 : discount * c * (next_target - next_value);
      advantages[at] = static_cast<float>(
          rho * (t.rewards[at] + discount * following(t, at, next_target) - value));
      next_target = value + delta + correction;
      next_value = value;
      targets[at] = static_cast<float>(next_target);
    }
  }
}

void retrace(const Trajectories& t, std::span<const float> expected, std::span<const float> ratios,
             double discount, double lambda, std::span<float> targets) {
  const auto n = static_cast<size_t>(t.envs);
  for (size_t env = 0; env < n; ++env) {
    double next_expected = t.last_values[env];
    double next_correction = 0;  // c_{t+1} (target_{t+1} - Q_{t+1})
    for (auto step = static_cast<size_t>(t.steps); step-- > 0;) {
      const size_t at = step * n + env;
      const double target = t.rewards[at] + discount * following(t, at, next_expected) +
                            (ends(t, at) ? 0 : discount * next_correction);
      next_correction = lambda * std::min<double>(1, ratios[at]) * (target - t.values[at]);
      next_expected = expected[at];
      targets[at] = static_cast<float>(target);
    }
  }
}

NStep n_step(std::span<const float> rewards, std::span<const uint8_t> terminated,
             std::span<const uint8_t> truncated, double discount) {
  NStep out;
  for (size_t i = 0; i < rewards.size(); ++i) {
    out.reward += out.discount * rewards[i];
    out.discount *= discount;
    ++out.steps;
    if (terminated[i] != 0) {
      out.discount = 0;
      break;
    }
    if (truncated[i] != 0) {
      break;
    }
  }
  return out;
}

}  // namespace mstrain::reinforcement
