// Classic control, to the numbers of Gymnasium 1.4's environments: CartPole-v1, Acrobot-v1, MountainCar-v0, MountainCarContinuous-v0,
// Pendulum-v1. States are f64; a step agrees with theirs within rounding of sine and cosine.
#pragma once

namespace mstrain::reinforcement {

// cartpole, acrobot, mountain_car, mountain_car_continuous, pendulum.
void add_classic_environments();

}  // namespace mstrain::reinforcement
