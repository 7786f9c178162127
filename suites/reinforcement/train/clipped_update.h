// The end of every learner's step.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/ops/elementwise.h"
#include "core/optim/optimizer.h"

namespace mstrain::reinforcement {

// One update, of gradients clipped as the optimizer's clip_grad says. Adds their norm to `measures`, as "grad_norm".
std::pair<Params, OptimizerState> clipped_update(
    const Optimizer& optimizer, Params params, Params gradients, OptimizerState state,
    const Tensor& lr, std::vector<std::pair<std::string, Tensor>>& measures);

// What follows the weights that learn: `rate`, a number or a scalar tensor, of `next` and the rest of itself.
template <class Rate>
Params followed(const Params& target, const Params& next, const Rate& rate) {
  Params out;
  for (size_t i = 0; i < target.size(); ++i) {
    out.set(target.name(i), rate * *next.find(target.name(i)) + (1 - rate) * target.tensor(i));
  }
  return out;
}

}  // namespace mstrain::reinforcement
