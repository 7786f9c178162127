// Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning control problems", 1983, with the
// equations of Florian, "Correct equations for the dynamics of the cart-pole system", 2007 (no friction), as Gymnasium's CartPole-v1 has them.
#pragma once

#include "suites/reinforcement/env/lanes/physics.h"

namespace mstrain::reinforcement {

struct CartPole {
  static constexpr int kState =
      4;  // position, velocity, angle of the pole from upright (radians), its velocity
  static constexpr int kObservation = 4;
  static constexpr bool kDiscrete = true;
  static constexpr double kMostState = 1e4;  // beyond: one lane at a time

  static constexpr double kEnd = 2.4;
  static constexpr double kFall = 12 * 2 * std::numbers::pi / 360;

  template <class L>
  MSTRAIN_LANES static void step(PhysicsStep<L, CartPole>& io) {
    using V = typename L::V;
    constexpr double kGravity = 9.8, kPoleMass = 0.1, kMass = kPoleMass + 1.0, kHalfLength = 0.5;
    constexpr double kPole = kPoleMass * kHalfLength, kSeconds = 0.02;
    const auto [x, x_dot, theta, theta_dot] = io.state;
    const V force = io.discrete == 1 ? V{} + 10.0 : V{} - 10.0;
    V sine, cosine;
    sincos(theta, sine, cosine);
    const V temp = divided(force + kPole * (theta_dot * theta_dot) * sine, kMass);
    const V theta_acc = (kGravity * sine - cosine * temp) /
                        (kHalfLength * (4.0 / 3.0 - divided(kPoleMass * (cosine * cosine), kMass)));
    const V x_acc = temp - divided(kPole * theta_acc * cosine, kMass);
    io.state[0] = x + kSeconds * x_dot;
    io.state[1] = x_dot + kSeconds * x_acc;
    io.state[2] = theta + kSeconds * theta_dot;
    io.state[3] = theta_dot + kSeconds * theta_acc;
    io.terminated = (io.state[0] < -kEnd) | (io.state[0] > kEnd) | (io.state[2] < -kFall) |
                    (io.state[2] > kFall);
    io.reward = V{} + 1.0;
  }

  template <class L>
  MSTRAIN_LANES static void observe(const typename L::V (&state)[kState],
                                    typename L::V (&out)[kObservation]) {
    for (int k = 0; k < kState; ++k) {
      out[k] = state[k];
    }
  }
};

}  // namespace mstrain::reinforcement
