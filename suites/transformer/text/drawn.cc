#include "suites/transformer/text/drawn.h"

#include <limits>

#include "core/data/windows.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// Of logits of the support [..., k] and of the targets [..., 1]: what is not there has no part.
Tensor on_support(const Tensor& logits, const Tensor& targets, const Tensor& support) {
  const Tensor is_target = not_equal(targets, kIgnoreTarget);
  const Tensor chosen = expand_dims(where(is_target, targets, 0), -1);
  const Tensor kept = where(greater_equal(support, 0), take_along(logits, maximum(support, 0)),
                            -std::numeric_limits<double>::infinity());
  // The place of the target on its support; rows without a target have one that is finite, so that no gradient is NaN.
  const Tensor at = argmax(cast(equal(support, chosen), Dtype::kI32));
  const Tensor finite = where(expand_dims(is_target, -1), kept, 0);
  const Tensor losses = cross_entropy_rows(finite, where(is_target, at, kIgnoreTarget));
  return -losses;
}

}  // namespace

Tensor at_temperature(const Tensor& features, double temperature) {
  return temperature == 1 ? features : features * (1 / temperature);
}

Tensor drawn_log_probs(const CausalModel& model, const Params& p, const Tensor& features,
                       const Tensor& targets, const DrawnFrom& from) {
  const Tensor tempered = at_temperature(features, from.temperature);
  if (!from.support.defined()) {
    return -model.losses_of_features(p, tempered, targets, /*smooths=*/false).loss;
  }
  return on_support(model.logits(p, tempered), targets, from.support);
}

Tensor drawn_log_probs(const Tensor& logits, const Tensor& targets, const Tensor& support) {
  return support.defined() ? on_support(logits, targets, support)
                           : -cross_entropy_rows(logits, targets);
}

}  // namespace mstrain
