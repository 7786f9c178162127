#include "suites/recommender/models/parts.h"

#include "core/nn/batch_norm.h"
#include "core/nn/layers.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain::recommender {

Tensor side_by_side(const Features& x) {
  const Tensor flat = flatten(x.vectors_bfd, 1);
  if (!x.numeric_bn.defined()) {
    return flat;
  }
  const Tensor parts[] = {x.numeric_bn, flat};
  return concat(parts, 1);
}

Tensor tower(const Params& p, Tensor x, const TowerConfig& config) {
  for (size_t i = 0; i < config.hidden.size(); ++i) {
    const Params layer = p / static_cast<int64_t>(i);
    x = linear(layer, x, {config.hidden[i]});
    if (config.batch_norm) {
      const auto& [samples, momentum, eps] = *config.batch_norm;
      x = batch_norm(layer / "norm", x,
                     {.momentum = momentum, .eps = eps, .samples = samples.value_or(0)});
    }
    x = dropout(layer / "dropout", activate(config.activation, x), config.dropout);
  }
  return x;
}

Tensor unit(const Params& p, const Tensor& x) { return squeeze(linear(p, x, {1}), 1); }

Tensor log_losses(const Tensor& logits_b, const Tensor& labels_b) {
  return softplus(logits_b) - logits_b * labels_b;
}

}  // namespace mstrain::recommender
