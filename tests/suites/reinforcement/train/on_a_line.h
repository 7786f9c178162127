// What environments that take their time are: a place on a line, of which the reward is how near the middle it lies.
#pragma once

#include <cmath>
#include <span>
#include <string>

#include "suites/reinforcement/env/one_environment.h"

namespace mstrain::reinforcement {

struct OnALine {
  float place = 0;

  static EnvSpec spec_of(const std::string& name, int time_limit) {
    return {.name = name,
            .about = "takes its time",
            .observation = Space::box({-10}, {10}),
            .action = Space::discrete(2),
            .state_size = 1,
            .time_limit = time_limit};
  }
  void begin(EnvRandom& random) { place = static_cast<float>(random.uniform(-1, 1)); }
  bool move(std::span<const int64_t> actions, std::span<float> rewards) {
    place += actions[0] == 1 ? 0.1F : -0.1F;
    rewards[0] = -std::abs(place);
    return false;
  }
  void observe(std::span<float> out) const { out[0] = place; }
  void get_state(std::span<double> out) const { out[0] = static_cast<double>(place); }
  void set_state(std::span<const double> state) { place = static_cast<float>(state[0]); }
};

}  // namespace mstrain::reinforcement
