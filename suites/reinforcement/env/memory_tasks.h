// What is needed at the end was shown at the start alone: no policy that sees one observation at a time does better than chance.
#pragma once

#include "suites/reinforcement/env/one_environment.h"

namespace mstrain::reinforcement {

// Bakker, "Reinforcement learning with long short-term memory", 2002: a corridor whose first cell shows on which side of its end the
// reward is. Actions: forward, left, right, which turn at the end alone. Seen: the side (-1, 1; in the first cell), whether the end is
// reached, whether one is at the start. Best return: 1 - 0.01 (kLength - 1); with chance at the end half of it is 0.
struct TMaze {
  static constexpr int64_t kLength = 8;  // cells, the first and the last included
  int64_t place = 0, side = 1;

  static EnvSpec spec();
  void begin(EnvRandom& random);
  bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards);
  void observe(std::span<float> out) const;
  void get_state(std::span<double> out) const;
  void set_state(std::span<const double> state);
  Image picture() const;
};

// The first observation shows one of kCues cues; then it is to be named at each of kSteps steps, for 1 / kSteps each. Later observations
// are a flag that is on.
struct RepeatCue {
  static constexpr int64_t kCues = 4, kSteps = 10;
  int64_t cue = 0, taken = 0;

  static EnvSpec spec();
  void begin(EnvRandom& random);
  bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards);
  void observe(std::span<float> out) const;
  void get_state(std::span<double> out) const;
  void set_state(std::span<const double> state);
  Image picture() const;
};

}  // namespace mstrain::reinforcement
