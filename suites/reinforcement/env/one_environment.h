// One environment as a struct, and the dynamics of n of them: the way to add one's own (docs/adding_an_environment.md).
//
//   struct Corridor {                                       // copied freely; no pointers to itself
//     static EnvSpec spec();                                // state_size > 0
//     void begin(EnvRandom& random);                        // an episode; whatever was before
//     // One action for each agent; a reward for each (0 at first). Whether the episode has come to an end of its own.
//     bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards);   // or span<const double>: a box
//     void observe(std::span<float> out) const;             // every agent's, one after the other
//     void get_state(std::span<double> out) const;          // all that the future depends on
//     void set_state(std::span<const double> state);        // throws Error for what is none
//     void mask(std::span<uint8_t> out) const;              // where spec().masks: 1 for legal actions; it comes as 0
//     int64_t to_move() const;                              // where spec().turns
//     Image picture() const;                                // else: observations as bars
//   };
//   add_environment<Corridor>();
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "suites/reinforcement/env/dynamics.h"
#include "suites/reinforcement/env/episodes.h"

namespace mstrain::reinforcement {

template <class E, class Number>
concept TakesActions = requires(E e, std::span<const Number> actions, EnvRandom& random,
                                std::span<float> rewards) {
  { e.step(actions, random, rewards) } -> std::same_as<bool>;
};
template <class E>
concept OneEnvironment = std::copyable<E> && std::default_initializable<E> &&
    (TakesActions<E, int64_t> ||
     TakesActions<E, double>)&&requires(E e, const E c, EnvRandom& random, std::span<float> seen,
                                        std::span<double> state, std::span<const double> given) {
  { E::spec() } -> std::same_as<EnvSpec>;
  e.begin(random);
  c.observe(seen);
  c.get_state(state);
  e.set_state(given);
};

// Observations as bars, from -1 to 1 or over the bounds of their space.
Image bars(const EnvSpec& spec, std::span<const float> observation);

template <OneEnvironment E>
class StructDynamics final : public Dynamics {
 public:
  explicit StructDynamics(int64_t n) : spec_(E::spec()), all_(static_cast<size_t>(n)) {
    check(spec_.state_size > 0, "{}: its spec has no state_size", spec_.name);
    check(spec_.action.is_discrete() == (TakesActions<E, int64_t>),
          "{}: step() takes other actions than its spec has", spec_.name);
  }

  const EnvSpec& spec() const override { return spec_; }
  int64_t size() const override { return static_cast<int64_t>(all_.size()); }

  void begin(int64_t i, EpisodeClock& clock) override {
    EnvRandom random = clock.random(i);
    at(i).begin(random);
  }
  void step(const Actions& actions, const uint8_t* still, EpisodeClock& clock, float* rewards,
            uint8_t* terminated) override {
    const auto agents = static_cast<size_t>(spec_.agents);
    const size_t taken = agents * static_cast<size_t>(spec_.action.size());
    for (size_t i = 0; i < all_.size(); ++i) {
      if (still != nullptr && still[i] != 0) {
        continue;
      }
      EnvRandom random = clock.random(static_cast<int64_t>(i));
      const std::span<float> paid(rewards + i * agents, agents);
      std::fill(paid.begin(), paid.end(), 0.0F);
      if constexpr (TakesActions<E, int64_t>) {
        terminated[i] = all_[i].step(std::span(actions.discrete + i * taken, taken), random, paid);
      } else {
        terminated[i] = all_[i].step(std::span(actions.box + i * taken, taken), random, paid);
      }
    }
  }
  void observe(float* out) const override {
    const int64_t numbers = spec_.agents * spec_.observation.size();
    for (int64_t i = 0; i < size(); ++i) {
      observe_one(i, out + i * numbers);
    }
  }
  void observe_one(int64_t i, float* out) const override {
    at(i).observe({out, static_cast<size_t>(spec_.agents * spec_.observation.size())});
  }
  void get_state(int64_t i, double* out) const override {
    at(i).get_state({out, static_cast<size_t>(spec_.state_size)});
  }
  void set_state(int64_t i, const double* state) override {
    at(i).set_state({state, static_cast<size_t>(spec_.state_size)});
  }
  void mask(int64_t i, uint8_t* out) const override {
    if constexpr (requires(const E& e, std::span<uint8_t> to) { e.mask(to); }) {
      const std::span<uint8_t> legal(out, static_cast<size_t>(spec_.agents * spec_.action.n));
      std::fill(legal.begin(), legal.end(), 0);
      at(i).mask(legal);
    }
  }
  int32_t to_move(int64_t i) const override {
    if constexpr (requires(const E& e) { e.to_move(); }) {
      return static_cast<int32_t>(at(i).to_move());
    } else {
      return 0;
    }
  }
  Image picture(int64_t i) const override {
    if constexpr (requires(const E& e) { e.picture(); }) {
      return at(i).picture();
    } else {
      std::vector<float> seen(static_cast<size_t>(spec_.agents * spec_.observation.size()));
      observe_one(i, seen.data());
      return bars(spec_, seen);
    }
  }

 private:
  E& at(int64_t i) { return all_[static_cast<size_t>(i)]; }
  const E& at(int64_t i) const { return all_[static_cast<size_t>(i)]; }

  EnvSpec spec_;
  std::vector<E> all_;
};

// Makes E known by the name in its spec.
template <OneEnvironment E>
void add_environment() {
  add_environment(entry_of<StructDynamics<E>>(E::spec()));
}

// For set_state(): number `k` of a state as an integer in low … high. Throws Error for anything else.
inline int64_t whole_state(std::span<const double> state, size_t k, int64_t low, int64_t high) {
  const double value = state[k];
  check(value == std::floor(value) && value >= static_cast<double>(low) &&
            value <= static_cast<double>(high),
        "number {} of a state is {}: expected a whole number in {} … {}", k, value, low, high);
  return static_cast<int64_t>(value);
}

}  // namespace mstrain::reinforcement
