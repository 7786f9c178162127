// Worlds on a grid for one agent. Actions: up, right, down, left.
#pragma once

#include "suites/reinforcement/env/one_environment.h"

namespace mstrain::reinforcement {

// Seen: the cell, one hot.
struct GridWorld {
  int64_t cell = 0;

  static EnvSpec spec();
  void begin(EnvRandom& random);
  bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards);
  void observe(std::span<float> out) const;
  void get_state(std::span<double> out) const;
  void set_state(std::span<const double> state);
  Image picture() const;
};

// Seen: the cell and the key's (while it lies there), one hot each; whether one has it; whether the door is open.
struct KeyDoor {
  int64_t cell = 0, key = 0;
  bool has_key = false, is_open = false;

  static EnvSpec spec();
  void begin(EnvRandom& random);
  bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards);
  void observe(std::span<float> out) const;
  void get_state(std::span<double> out) const;
  void set_state(std::span<const double> state);
  Image picture() const;
};

}  // namespace mstrain::reinforcement
