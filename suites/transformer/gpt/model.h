// GPT-2 (Radford et al. 2019): a decoder of pre-norm blocks with learned positions.
// Parameters carry the names of Hugging Face's GPT2LMHeadModel and keep their logical dims (see hf_names.h).
#pragma once

#include <functional>

#include "core/nn/recompute_rule.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/tensor/params.h"
#include "suites/transformer/gpt/config.h"

namespace mstrain::gpt {

// What a pass over tokens sees besides them, where that is not simply each token and those before it.
struct GptView {
  Tensor positions_bt;  // i32, where in their sequence the tokens stand; null: 0, 1, …
  // out[b, t, heads, head_dim] of the queries, keys and values of a layer; null: causal attention, with dropout.
  std::function<Tensor(int64_t layer, const Tensor& q_bthd, const Tensor& k_bthd,
                       const Tensor& v_bthd)>
      attend;
};

class Gpt {
 public:
  // `config.vocab_size` must be a number. Throws ConfigError for a configuration that check_gpt_config() rejects.
  explicit Gpt(const GptConfig& config, Recompute recompute = Recompute::kNone);

  const GptConfig& config() const { return config_; }

  // tokens[b, t] (i32 or i64), t <= max_position_embeddings -> logits[b, t, vocab].
  Tensor operator()(const Params& p, const Tensor& tokens_bt, const GptView& view = {}) const;
  // Its two halves: tokens[b, t] -> features[b, t, hidden_size], and features[..., hidden_size] -> logits[..., vocab].
  Tensor features(const Params& p, const Tensor& tokens_bt, const GptView& view = {}) const;
  Tensor logits(const Params& p, const Tensor& features) const;

  // Cross-entropy of targets[b, t] (the tokens, one position ahead; -100: not counted): sums, and their mean. Labels are
  // smoothed in a context that is training.
  CrossEntropySums losses(const Params& p, const Tensor& tokens_bt, const Tensor& targets_bt) const;
  Tensor loss(const Params& p, const Tensor& tokens_bt, const Tensor& targets_bt) const;

  // Every parameter with its initialiser. Nothing is allocated.
  std::vector<ParamSpec> specs() const;

 private:
  Tensor embed(const Params& p, const Tensor& tokens_bt, const Tensor& positions_bt) const;
  Tensor block(const Params& p, const Tensor& x_btc, int64_t layer, const GptView& view) const;
  Tensor head_weight(const Params& p) const;  // [vocab, hidden_size]
  // Both of the norm of x.
  Tensor self_attention(const Params& block, const Tensor& x_btc, int64_t layer,
                        const GptView& view) const;
  Tensor feed_forward(const Params& block, const Tensor& x_btc) const;
  Init weights() const;
  Init residual_weights() const;

  GptConfig config_;
  Recompute recompute_;
};

}  // namespace mstrain::gpt
