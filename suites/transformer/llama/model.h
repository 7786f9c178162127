// Llama (Touvron et al. 2023) and its kin: a decoder of pre-norm blocks with rotary positions, RMS norms, gated MLPs and
// grouped queries (Ainslie et al. 2023); with a window it is Mistral, with biases Qwen2.
// Parameters carry the names of Hugging Face's LlamaForCausalLM and keep their logical dims (see hf_names.h).
#pragma once

#include "core/nn/layers.h"
#include "core/nn/model_layer.h"
#include "core/nn/rotary.h"
#include "suites/transformer/llama/config.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain::llama {

class Llama final : public CausalModel {
 public:
  // `config.vocab_size` must be a number. Throws ConfigError for a configuration that check_config() rejects.
  explicit Llama(const LlamaConfig& config, Recompute recompute = Recompute::kNone);

  const LlamaConfig& config() const { return config_; }

  int64_t vocab_size() const override { return *config_.vocab_size.value; }
  int64_t max_positions() const override { return config_.longest_sequence(); }
  int64_t key_heads() const override { return config_.key_value_heads(); }
  bool has_dropout() const override { return config_.dropout.attention > 0; }
  bool turns_by_length(int64_t tokens) const override {
    return config_.rope.type == RopeType::kDynamic && tokens > config_.max_position_embeddings;
  }
  using CausalModel::attention_options;
  AttentionOptions attention_options(int64_t layer) const override;
  Tensor features(const Params& p, const Tensor& tokens_bt,
                  const TokenView& view = {}) const override;

 private:
  // Of the tokens of a pass: made once, used in every layer.
  Rotation rotation_of(const Tensor& tokens_bt, const TokenView& view, Dtype dtype) const;
  Tensor block(const Params& p, const Tensor& x_btc, int64_t layer, const Rotation& rotation,
               const TokenView& view) const;
  Weight head_weight(const Params& p, bool of_score) const override;
  HeadType head() const override { return head_of(config_.head); }
  double label_smoothing() const override { return config_.label_smoothing; }
  std::span<const SharedDim> shared_dims() const override;
  // Both of the norm of x.
  Tensor self_attention(const Params& block, const Tensor& x_btc, int64_t layer,
                        const Rotation& rotation, const TokenView& view) const;
  Tensor feed_forward(const Params& block, const Tensor& x_btc) const;
  LinearOptions projection(bool bias) const;
  LinearOptions residual_projection(bool bias) const;

  LlamaConfig config_;
  Recompute recompute_;
};

}  // namespace mstrain::llama
