// What an environment takes and gives: its spaces and its limits.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/runtime/shape.h"

namespace mstrain::reinforcement {

// Of observations always a box. A box has `low` and `high` for each of its elements (infinite where there is no bound).
struct Space {
  enum class Kind { kDiscrete, kBox };
  Kind kind = Kind::kBox;
  int64_t n = 0;  // discrete: 0 … n - 1
  Shape shape{};  // box
  std::vector<double> low{}, high{};

  static Space discrete(int64_t n) { return {.kind = Kind::kDiscrete, .n = n}; }
  static Space box(std::vector<double> low, std::vector<double> high) {
    return {.shape = {static_cast<int64_t>(low.size())}, .low = low, .high = std::move(high)};
  }
  static Space box(const Shape& shape, double low, double high) {
    const auto size = static_cast<size_t>(shape.elements());
    return {.shape = shape,
            .low = std::vector<double>(size, low),
            .high = std::vector<double>(size, high)};
  }
  bool is_discrete() const { return kind == Kind::kDiscrete; }
  // Numbers of one element of the space: 1 where it is discrete.
  int64_t size() const { return is_discrete() ? 1 : shape.elements(); }
  bool operator==(const Space&) const = default;
};

// "discrete(2)", "box[3] in [-1, 1]", "box[4]" where bounds differ by element.
std::string to_string(const Space& space);

struct EnvSpec {
  std::string name{};
  std::string about{};  // a line
  Space observation{};  // of one agent
  Space action{};       // of one agent
  // Numbers (f64) that are the whole state of one environment, equal to Gymnasium's env.unwrapped.state where it has the
  // environment; 0 where a state is no list of so many numbers.
  int64_t state_size = 0;
  int64_t time_limit = 0;  // steps after which an episode is truncated; 0: none
  double reward_threshold =
      std::numeric_limits<double>::quiet_NaN();  // mean return that counts as solved; NaN: none
  int64_t agents = 1;
  // First numbers of an observation that a policy may go by; what follows is for values alone. 0: all of them.
  int64_t own_numbers = 0;
  bool turns = false;    // one agent acts at a time; else all at once
  bool masks = false;    // not every action is always legal: VectorEnv::action_masks()
  bool endless = false;  // nothing but the time limit ends an episode
};

}  // namespace mstrain::reinforcement
