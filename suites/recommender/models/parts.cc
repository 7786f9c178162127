#include "suites/recommender/models/parts.h"

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

Tensor tower(const Params& p, Tensor x, const std::vector<int64_t>& hidden, Activation activation,
             double rate) {
  for (size_t i = 0; i < hidden.size(); ++i) {
    const Params layer = p / static_cast<int64_t>(i);
    x = dropout(layer / "dropout", activate(activation, linear(layer, x, {hidden[i]})), rate);
  }
  return x;
}

Tensor unit(const Params& p, const Tensor& x) { return squeeze(linear(p, x, {1}), 1); }

Tensor log_losses(const Tensor& logits_b, const Tensor& labels_b) {
  return softplus(logits_b) - logits_b * labels_b;
}

}  // namespace mstrain::recommender
