// Sutton, "Generalization in reinforcement learning: successful examples using sparse coarse coding", 1996, with the equations of
// Sutton and Barto's book and Gymnasium's Acrobot-v1: two links of length and mass 1, torque at the joint between them.
#pragma once

#include "suites/reinforcement/env/lanes/physics.h"

namespace mstrain::reinforcement {

struct Acrobot {
  static constexpr int kState =
      4;  // angle of the first link from hanging, of the second from the first, their velocities
  static constexpr int kObservation = 6;
  static constexpr bool kDiscrete = true;
  static constexpr double kMostState =
      40;  // so that no stage of Runge and Kutta turns further than kMostAngle

  static constexpr double kPi = std::numbers::pi;
  static constexpr double kMostVelocity1 = 4 * kPi, kMostVelocity2 = 9 * kPi;

  template <class V>
  MSTRAIN_LANES static void derivative(const V (&s)[4], V torque, V (&out)[4]) {
    constexpr double kG = 9.8;
    V sin2, cos2, unused, cos12, cos1;
    sincos(s[1], sin2, cos2);
    sincos(s[0] + s[1] - kPi / 2.0, unused, cos12);
    sincos(s[0] - kPi / 2, unused, cos1);
    const V d1 = 0.25 + (1.25 + cos2) + 1.0 + 1.0;
    const V d2 = (0.25 + 0.5 * cos2) + 1.0;
    const V phi2 = 0.5 * kG * cos12;
    const V phi1 = -0.5 * (s[3] * s[3]) * sin2 - s[3] * s[2] * sin2 + 1.5 * kG * cos1 + phi2;
    out[0] = s[2];
    out[1] = s[3];
    out[3] = (torque + d2 / d1 * phi1 - 0.5 * (s[2] * s[2]) * sin2 - phi2) / (1.25 - d2 * d2 / d1);
    out[2] = -(d2 * out[3] + phi1) / d1;
  }

  template <class V>
  MSTRAIN_LANES static void stage(const V (&y)[4], double seconds, const V (&k)[4], V (&out)[4]) {
    for (int j = 0; j < 4; ++j) {
      out[j] = y[j] + seconds * k[j];
    }
  }

  // To [-pi, pi] by whole turns.
  template <class V>
  MSTRAIN_LANES static V wrap(V x) {
    constexpr double kTurn = kPi - -kPi;
    while (any_lane(x > kPi)) {
      x = x > kPi ? x - kTurn : x;
    }
    while (any_lane(x < -kPi)) {
      x = x < -kPi ? x + kTurn : x;
    }
    return x;
  }

  template <class L>
  MSTRAIN_LANES static void step(PhysicsStep<L, Acrobot>& io) {
    using V = typename L::V;
    constexpr double kSeconds = 0.2;
    const V torque = io.discrete == 0 ? V{} - 1.0 : (io.discrete == 2 ? V{} + 1.0 : V{});
    V(&y)[4] = io.state;
    V k1[4], k2[4], k3[4], k4[4], at[4];
    derivative(y, torque, k1);
    stage(y, kSeconds / 2.0, k1, at);
    derivative(at, torque, k2);
    stage(y, kSeconds / 2.0, k2, at);
    derivative(at, torque, k3);
    stage(y, kSeconds, k3, at);
    derivative(at, torque, k4);
    for (int j = 0; j < 4; ++j) {
      y[j] = y[j] + kSeconds / 6.0 * (k1[j] + 2 * k2[j] + 2 * k3[j] + k4[j]);
    }
    y[0] = wrap(y[0]);
    y[1] = wrap(y[1]);
    y[2] = clamp_lanes(y[2], -kMostVelocity1, kMostVelocity1);
    y[3] = clamp_lanes(y[3], -kMostVelocity2, kMostVelocity2);
    V unused, cos1, cos12;
    sincos(y[0], unused, cos1);
    sincos(y[1] + y[0], unused, cos12);
    io.terminated = -cos1 - cos12 > 1.0;
    io.reward = io.terminated ? V{} : V{} - 1.0;
  }

  template <class L>
  MSTRAIN_LANES static void observe(const typename L::V (&state)[kState],
                                    typename L::V (&out)[kObservation]) {
    sincos(state[0], out[1], out[0]);
    sincos(state[1], out[3], out[2]);
    out[4] = state[2];
    out[5] = state[3];
  }
};

}  // namespace mstrain::reinforcement
