// The end of every learner's step.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/optim/optimizer.h"

namespace mstrain::reinforcement {

// One update, of gradients clipped as the optimizer's clip_grad says. Adds their norm to `measures`, as "grad_norm".
std::pair<Params, OptimizerState> clipped_update(
    const Optimizer& optimizer, Params params, Params gradients, OptimizerState state,
    const Tensor& lr, std::vector<std::pair<std::string, Tensor>>& measures);

}  // namespace mstrain::reinforcement
