#include "suites/reinforcement/train/clipped_update.h"

#include "core/ops/build.h"
#include "core/transform/clip.h"

namespace mstrain::reinforcement {

std::pair<Params, OptimizerState> clipped_update(
    const Optimizer& optimizer, Params params, Params gradients, OptimizerState state,
    const Tensor& lr, std::vector<std::pair<std::string, Tensor>>& measures) {
  const Tensor norm = global_norm(gradients);
  measures.emplace_back("grad_norm", norm);
  const std::optional<double>& limit = optimizer.config().clip_grad;
  const Tensor scale = limit ? clip_factor(norm, *limit) : filled({Dtype::kF32, {}}, 1);
  return optimizer.update(std::move(params), std::move(gradients), std::move(state), lr, scale);
}

}  // namespace mstrain::reinforcement
