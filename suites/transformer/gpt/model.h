// GPT-2 (Radford et al. 2019): a decoder of pre-norm blocks with learned positions.
// Parameters carry the names of Hugging Face's GPT2LMHeadModel and keep their logical dims (see hf_names.h).
#pragma once

#include "core/nn/model_layer.h"
#include "suites/transformer/gpt/config.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain::gpt {

class Gpt final : public CausalModel {
 public:
  // `config.vocab_size` must be a number. Throws ConfigError for a configuration that check_config() rejects.
  explicit Gpt(const GptConfig& config, Recompute recompute = Recompute::kNone);

  const GptConfig& config() const { return config_; }

  int64_t vocab_size() const override { return *config_.vocab_size.value; }
  int64_t max_positions() const override { return config_.max_position_embeddings; }
  int64_t key_heads() const override { return config_.num_attention_heads; }
  bool has_dropout() const override { return config_.dropout.any(); }
  using CausalModel::attention_options;
  AttentionOptions attention_options(int64_t layer) const override;
  Tensor features(const Params& p, const Tensor& tokens_bt,
                  const TokenView& view = {}) const override;

 private:
  Tensor embed(const Params& p, const Tensor& tokens_bt, const Tensor& positions_bt) const;
  Tensor block(const Params& p, const Tensor& x_btc, int64_t layer, const TokenView& view) const;
  Weight head_weight(const Params& p, bool of_score) const override;
  HeadType head() const override { return head_of(config_.head); }
  double label_smoothing() const override { return config_.label_smoothing; }
  std::span<const SharedDim> shared_dims() const override;
  // Both of the norm of x.
  Tensor self_attention(const Params& block, const Tensor& x_btc, int64_t layer,
                        const TokenView& view) const;
  Tensor feed_forward(const Params& block, const Tensor& x_btc) const;
  Init weights() const;
  Init residual_weights() const;

  GptConfig config_;
  Recompute recompute_;
};

}  // namespace mstrain::gpt
