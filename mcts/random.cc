#include "mcts/random.h"

#include <cmath>
#include <numbers>

namespace mstrain::mcts {

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double Random::gumbel() { return -std::log(-std::log((uniform() + 0x1p-54))); }

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); below shape 1 by their boost.
double Random::gamma(double shape) {
  if (shape < 1) {
    const double boost = std::pow(uniform() + 0x1p-54, 1.0 / shape);
    return gamma(shape + 1) * boost;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double v = 1.0 + c * x;
    if (v <= 0) {
      continue;
    }
    const double cube = v * v * v;
    const double u = uniform() + 0x1p-54;
    if (std::log(u) < 0.5 * x * x + d - d * cube + d * std::log(cube)) {
      return d * cube;
    }
  }
}

}  // namespace mstrain::mcts
