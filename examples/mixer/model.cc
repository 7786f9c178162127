#include "model.h"

#include "core/mstrain.h"

namespace mstrain::mixer {

Tensor Mixer::features(const Params& p, const Tensor& tokens_bt) const {
  const int64_t t = tokens_bt.dim(1);
  const int64_t positions = config_.max_position_embeddings;
  check(t <= positions, "a sequence of {} tokens is longer than max_position_embeddings {}", t,
        positions);
  Tensor x_btc = embedding(head_weight(p), tokens_bt);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const Params block = p / "blocks" / i;
    const Tensor mix = (block / "tokens").get("weight", {positions, positions}, normal_init(0.02));
    const Tensor mix_ts = tril(slice(slice(mix, 0, 0, t), 1, 0, t));
    x_btc = x_btc + einsum("ts,bsc->btc", {mix_ts, layer_norm(block / "norm_1", x_btc)});
    const Tensor added_btc = mlp(block / "channels", layer_norm(block / "norm_2", x_btc),
                                 {4 * config_.hidden_size, config_.hidden_size}, Activation::kGelu);
    x_btc = x_btc + dropout(block / "dropout", added_btc, config_.dropout);
  }
  return layer_norm(p / "norm", x_btc);
}

// Both of the embedding and of the head.
Tensor Mixer::head_weight(const Params& p) const {
  return (p / "embedding")
      .get("weight", {*config_.vocab_size.value, config_.hidden_size}, normal_init(0.02));
}

Tensor Mixer::logits(const Params& p, const Tensor& tokens_bt) const {
  return matmul(features(p, tokens_bt), head_weight(p), {.transpose_b = true});
}

CrossEntropySums Mixer::losses(const Params& p, const Tensor& tokens_bt,
                               const Tensor& targets_bt) const {
  return linear_cross_entropy(features(p, tokens_bt), head_weight(p), targets_bt,
                              {.transpose_weight = true});
}

}  // namespace mstrain::mixer
