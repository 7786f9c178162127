// Moore, "Efficient memory-based learning for robot control", 1990: a car too weak for its hill, as Gymnasium's MountainCar-v0 and
// MountainCarContinuous-v0 have it.
#pragma once

#include "suites/reinforcement/env/lanes/physics.h"

namespace mstrain::reinforcement {

inline constexpr double kMountainLeft = -1.2, kMountainRight = 0.6, kMountainSpeed = 0.07;

struct MountainCar {
  static constexpr int kState = 2;  // position, velocity
  static constexpr int kObservation = 2;
  static constexpr bool kDiscrete = true;
  static constexpr double kMostState = 1e4;
  static constexpr double kGoal = 0.5;

  template <class L>
  MSTRAIN_LANES static void step(PhysicsStep<L, MountainCar>& io) {
    using V = typename L::V;
    const V push = io.discrete == 0 ? V{} - 1.0 : (io.discrete == 2 ? V{} + 1.0 : V{});
    V sine, cosine;
    sincos(3 * io.state[0], sine, cosine);
    V velocity = io.state[1] + (push * 0.001 + cosine * -0.0025);
    velocity = clamp_lanes(velocity, -kMountainSpeed, kMountainSpeed);
    const V position = clamp_lanes(io.state[0] + velocity, kMountainLeft, kMountainRight);
    velocity = (position == kMountainLeft) & (velocity < 0) ? V{} : velocity;
    io.state[0] = position;
    io.state[1] = velocity;
    io.terminated = (position >= kGoal) & (velocity >= 0);
    io.reward = V{} - 1.0;
  }

  template <class L>
  MSTRAIN_LANES static void observe(const typename L::V (&state)[kState],
                                    typename L::V (&out)[kObservation]) {
    out[0] = state[0];
    out[1] = state[1];
  }
};

struct MountainCarContinuous {
  static constexpr int kState = 2;  // position, velocity
  static constexpr int kObservation = 2;
  static constexpr bool kDiscrete = false;
  static constexpr double kMostState = 1e4;
  static constexpr double kGoal = 0.45;

  // Gymnasium keeps the state in f32 from the first step on. NumPy then triples the position in f32, and, where the velocity
  // was clamped to a number of Python's, adds and compares in f32 as well; all else is f64.
  template <class L>
  MSTRAIN_LANES static void step(PhysicsStep<L, MountainCarContinuous>& io) {
    using V = typename L::V;
    const V triple = 3 * io.state[0];
    V sine, cosine;
    sincos(io.first ? triple : to_float_and_back(triple), sine, cosine);
    const V pushed = io.state[1] + (io.box * 0.0015 - 0.0025 * cosine);
    V velocity = clamp_lanes(pushed, -kMountainSpeed, kMountainSpeed);
    const typename L::I in_f32 = (velocity != pushed) & (io.first == 0);
    const V moved = in_f32 ? to_float_and_back(io.state[0] + to_float_and_back(velocity))
                           : io.state[0] + velocity;
    const V position = clamp_lanes(moved, kMountainLeft, kMountainRight);
    velocity = (position == kMountainLeft) & (velocity < 0) ? V{} : velocity;
    const V goal = in_f32 ? V{} + static_cast<double>(static_cast<float>(kGoal)) : V{} + kGoal;
    io.terminated = (position >= goal) & (velocity >= 0);
    io.reward = (io.terminated ? V{} + 100.0 : V{}) - io.box * io.box * 0.1;
    io.state[0] = to_float_and_back(position);
    io.state[1] = to_float_and_back(velocity);
  }

  template <class L>
  MSTRAIN_LANES static void observe(const typename L::V (&state)[kState],
                                    typename L::V (&out)[kObservation]) {
    out[0] = state[0];
    out[1] = state[1];
  }
};

}  // namespace mstrain::reinforcement
