// Pictures of classic control, of one state each.
#pragma once

#include "core/io/images/image.h"

namespace mstrain::reinforcement {

Image draw_cartpole(const double* state);
Image draw_acrobot(const double* state);
Image draw_mountain_car(const double* state);
Image draw_mountain_car_continuous(const double* state);
Image draw_pendulum(const double* state);

}  // namespace mstrain::reinforcement
