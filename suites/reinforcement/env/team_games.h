// Several agents that act at once for one reward, with optima that are known.
#pragma once

#include <array>

#include "suites/reinforcement/env/one_environment.h"

namespace mstrain::reinforcement {

// The climbing game (Claus and Boutilier, "The dynamics of reinforcement learning in cooperative multiagent systems", 1998): both choose one of three
// actions, once; the best pair (0, 0) pays 11, and choosing 0 alone is punished. Averaging over the other's choices leads away from it.
struct ClimbingGame {
  static constexpr float kPays[3][3] = {{11, -30, 0}, {-30, 7, 6}, {0, 0, 5}};
  int64_t last = -1;  // the pair that was played, for the picture

  static EnvSpec spec();
  void begin(EnvRandom& random);
  bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards);
  void observe(std::span<float> out) const;
  void get_state(std::span<double> out) const;
  void set_state(std::span<const double> state);
  Image picture() const;
};

// The two-step game of Rashid et al. 2018: the first agent's first action decides which of two games of one step both play. In one every pair pays
// 7; in the other (1, 1) pays 8 and everything else 1 or 0, so that values that are sums of the agents' own prefer the first.
struct TwoStepGame {
  static constexpr float kSafe = 7;
  static constexpr float kPays[2][2] = {{0, 1}, {1, 8}};
  int64_t state = 0;  // 0: the first step; 1: the safe game; 2: the other one

  static EnvSpec spec();
  void begin(EnvRandom& random);
  bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards);
  void observe(std::span<float> out) const;
  void get_state(std::span<double> out) const;
  void set_state(std::span<const double> state);
  Image picture() const;
};

// Two agents and two marks on a grid of 5 by 5: each step pays minus the least sum of distances by which the agents can take a mark each,
// over kSide; agents that would meet stay. The episode ends with +1 when both marks are taken. So the best return from a
// state without conflicts follows from distances alone. Actions: up, right, down, left, stay. Seen: one's own place, then the
// other's, the marks' relative to it, over kSide.
struct Spread {
  static constexpr int64_t kSide = 5;
  std::array<int64_t, 2> agents{}, marks{};

  static EnvSpec spec();
  void begin(EnvRandom& random);
  bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards);
  void observe(std::span<float> out) const;
  void get_state(std::span<double> out) const;
  void set_state(std::span<const double> state);
  Image picture() const;
  // The least sum of distances.
  int64_t distance() const;
};

}  // namespace mstrain::reinforcement
