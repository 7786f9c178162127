#include "suites/transformer/text/causal_model.h"

#include "core/nn/weight.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"

namespace mstrain {

Tensor CausalModel::logits(const Params& p, const Tensor& features) const {
  const Weight w_vc = head_weight(p, head() == HeadType::kScore);
  const NameScope scope("lm_head");
  return multiply(features, w_vc);
}

Tensor CausalModel::scores(const Params& p, const Tensor& tokens_bt, const Tensor& is_end_bt,
                           const TokenView& view) const {
  return scores_of_features(p, features(p, tokens_bt, view), is_end_bt);
}

Tensor CausalModel::scores_of_features(const Params& p, const Tensor& features_btc,
                                       const Tensor& is_end_bt) const {
  const Tensor last_bc = sum(where(expand_dims(is_end_bt, 2), features_btc, 0), {1});
  return reshape(logits(p, last_bc), {last_bc.dim(0)});
}

Tensor CausalModel::values(const Params& p, const Tensor& features_btc) const {
  const Weight w_1c = head_weight(p, /*of_score=*/true);
  const NameScope scope(kScore);
  return reshape(multiply(features_btc, w_1c), {features_btc.dim(0), features_btc.dim(1)});
}

AttentionOptions CausalModel::attention_options(int64_t layer, const TokenView& view) const {
  AttentionOptions options = attention_options(layer);
  options.query_segments = view.segments_bt;
  options.key_segments = view.segments_bt;
  return options;
}

LinearCrossEntropyRows CausalModel::token_losses(const Params& p, const Tensor& tokens_bt,
                                                 const Tensor& targets_bt, const TokenView& view,
                                                 bool smooths) const {
  return losses_of_features(p, features(p, tokens_bt, view), targets_bt, smooths);
}

LinearCrossEntropyRows CausalModel::losses_of_features(const Params& p, const Tensor& features_btc,
                                                       const Tensor& targets_bt,
                                                       bool smooths) const {
  const Tensor w_vc = numbers(head_weight(p, /*of_score=*/false));
  const NameScope scope("lm_head");
  const bool smoothed = smooths && current_context().training;
  return linear_cross_entropy_rows(
      features_btc, w_vc, targets_bt,
      {.transpose_weight = true, .label_smoothing = smoothed ? label_smoothing() : 0.0});
}

CrossEntropySums CausalModel::losses(const Params& p, const Tensor& tokens_bt,
                                     const Tensor& targets_bt) const {
  const Tensor features_btc = features(p, tokens_bt);
  const Tensor w_vc = numbers(head_weight(p, /*of_score=*/false));
  const NameScope scope("lm_head");
  return linear_cross_entropy(
      features_btc, w_vc, targets_bt,
      {.transpose_weight = true,
       .label_smoothing = current_context().training ? label_smoothing() : 0.0});
}

Tensor CausalModel::loss(const Params& p, const Tensor& tokens_bt, const Tensor& targets_bt) const {
  const CrossEntropySums sums = losses(p, tokens_bt, targets_bt);
  return sums.loss / cast(maximum(sums.count, 1), sums.loss.dtype());
}

std::vector<ParamSpec> CausalModel::specs() const {
  return shared(declare_params([&](const Params& p) {
                  const Tensor features_btc = features(p, zeros({Dtype::kI32, {1, 1}}));
                  logits(p, features_btc);
                  if (head() == HeadType::kBoth) {
                    values(p, features_btc);
                  }
                }),
                shared_dims());
}

}  // namespace mstrain
