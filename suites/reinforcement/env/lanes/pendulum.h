// A pendulum to be swung up and held, as Gymnasium's Pendulum-v1 has it: length, mass 1, gravity 10, torque up to 2.
#pragma once

#include "suites/reinforcement/env/lanes/physics.h"

namespace mstrain::reinforcement {

struct Pendulum {
  static constexpr int kState = 2;  // angle from upright, which is never wrapped, and its velocity
  static constexpr int kObservation = 3;
  static constexpr bool kDiscrete = false;
  static constexpr double kMostState = 1e4;
  static constexpr double kMostTorque = 2, kMostVelocity = 8;

  // (x + pi) mod 2 pi - pi, with the sign of 2 pi. The remainder is exact: 2 pi (as an f64) is taken in parts of 33 and 20 bits.
  template <class V>
  MSTRAIN_LANES static V normalised(V x) {
    constexpr double kPi = std::numbers::pi, kTurn = 2 * kPi;
    constexpr double kTurn1 = 0x1.921fb544p2, kTurn2 = kTurn - kTurn1;
    const V shifted = x + kPi;
    const V turns = floor_lanes(shifted / kTurn);
    V rest = shifted - turns * kTurn1 - turns * kTurn2;
    rest = rest < 0 ? rest + kTurn : rest;  // where the quotient was rounded up to a whole number
    rest = rest >= kTurn ? rest - kTurn : rest;
    return rest - kPi;
  }

  template <class L>
  MSTRAIN_LANES static void step(PhysicsStep<L, Pendulum>& io) {
    using V = typename L::V;
    constexpr double kSeconds = 0.05;
    const V theta = io.state[0], velocity = io.state[1], torque = io.box;
    V sine, cosine;
    sincos(theta, sine, cosine);
    const V angle = normalised(theta);
    io.reward = -(angle * angle + 0.1 * (velocity * velocity) + 0.001 * (torque * torque));
    const V next = clamp_lanes(velocity + (15.0 * sine + 3.0 * torque) * kSeconds, -kMostVelocity,
                               kMostVelocity);
    io.state[0] = theta + next * kSeconds;
    io.state[1] = next;
    io.terminated = typename L::I{};  // never
  }

  template <class L>
  MSTRAIN_LANES static void observe(const typename L::V (&state)[kState],
                                    typename L::V (&out)[kObservation]) {
    sincos(state[0], out[1], out[0]);
    out[2] = state[1];
  }
};

}  // namespace mstrain::reinforcement
