// Written by reinforcement_losses.py, which says of what.
#pragma once

namespace mstrain::golden {

inline constexpr double kPpoPolicyLoss = -0.08743254901336042;
inline constexpr double kPpoValueLoss = 0.27999999999999997;
inline constexpr double kEntropy = 0.9135907775763006;
inline constexpr double kKl = 0.11834938668077108;
inline constexpr double kClipFraction = 0.6;
inline constexpr double kPpoLoss = 0.22095562323203316;
inline constexpr double kA2cLoss = 0.16545071506724712;
inline constexpr double kSquashedLogProb = 3.8520636507993284;
inline constexpr double kSquashedAction = 0.6556952305224418;

}  // namespace mstrain::golden
