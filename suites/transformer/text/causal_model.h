// A language model as those see it who run it token by token, or over given tokens: a decoder whose tokens see themselves
// and what came before.
#pragma once

#include <functional>
#include <vector>

#include "core/nn/model_layer.h"
#include "core/ops/attention.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/tensor/params.h"
#include "suites/transformer/hf/sections.h"

namespace mstrain {

// What a pass over tokens sees besides them, where that is not simply each token and those before it.
struct TokenView {
  Tensor positions_bt;  // i32, where in their sequence the tokens stand; null: 0, 1, …
  Tensor lengths_b;     // i32, of the sequences; null: up to the last position
  // i32: tokens see those of their segment alone, as where a row holds several texts; null: one text a row. Not with attend.
  Tensor segments_bt;
  // out[b, t, heads, head_dim] of the queries, keys and values of a layer; null: as attention() says, with dropout.
  // Keys and values may have fewer heads than queries.
  std::function<Tensor(int64_t layer, const Tensor& q_bthd, const Tensor& k_bthd,
                       const Tensor& v_bthd)>
      attend;
  bool is_pure = false;  // attend() does nothing but give its result

  // What attend() sees inside a layer may leave it, which nothing in a layer that is computed again can.
  Recompute kept(Recompute rule) const { return attend && !is_pure ? Recompute::kNone : rule; }
};

class CausalModel {
 public:
  virtual ~CausalModel() = default;

  virtual HeadType head() const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t max_positions() const = 0;  // tokens of the longest sequence
  virtual int64_t key_heads() const = 0;      // of keys and values
  virtual bool has_dropout() const = 0;       // in training, of its own
  // Whether a token's numbers depend on how long its text becomes, of up to so many tokens.
  virtual bool turns_by_length(int64_t) const { return false; }
  // Of a layer over a sequence from its first token on: causal, with the layer's scale and window.
  virtual AttentionOptions attention_options(int64_t layer) const = 0;
  AttentionOptions attention_options(int64_t layer, const TokenView& view) const;

  // tokens[b, t] (i32 or i64) -> features[b, t, width], and features[..., width] -> logits[..., vocab], or [..., 1] of a score.
  virtual Tensor features(const Params& p, const Tensor& tokens_bt,
                          const TokenView& view = {}) const = 0;
  Tensor logits(const Params& p, const Tensor& features) const;
  Tensor operator()(const Params& p, const Tensor& tokens_bt, const TokenView& view = {}) const {
    return logits(p, features(p, tokens_bt, view));
  }

  // The score of each text, [b], of the tokens up to the one that is_end[b, t] names; 0 where it names none. For a head of scores.
  Tensor scores(const Params& p, const Tensor& tokens_bt, const Tensor& is_end_bt,
                const TokenView& view = {}) const;
  Tensor scores_of_features(const Params& p, const Tensor& features_btc,
                            const Tensor& is_end_bt) const;

  // The value of each token, [b, t], of features[b, t, width]. For a head of both.
  Tensor values(const Params& p, const Tensor& features_btc) const;

  // Cross-entropy of targets[b, t] (the tokens, one position ahead; -100: not counted): sums, and their mean. Labels are
  // smoothed in a context that is training.
  CrossEntropySums losses(const Params& p, const Tensor& tokens_bt, const Tensor& targets_bt) const;
  // Of every token: minus the logarithm of the target's probability, where labels are not smoothed.
  LinearCrossEntropyRows token_losses(const Params& p, const Tensor& tokens_bt,
                                      const Tensor& targets_bt, const TokenView& view,
                                      bool smooths) const;
  LinearCrossEntropyRows losses_of_features(const Params& p, const Tensor& features_btc,
                                            const Tensor& targets_bt, bool smooths) const;
  Tensor loss(const Params& p, const Tensor& tokens_bt, const Tensor& targets_bt) const;

  // Every parameter with its initialiser. Nothing is allocated.
  std::vector<ParamSpec> specs() const;

 protected:
  // [vocab, width]; of scores and values [1, width].
  virtual Weight head_weight(const Params& p, bool of_score) const = 0;
  virtual double label_smoothing() const = 0;
  // What ranks along `tensor` can share; empty: nothing.
  virtual std::span<const SharedDim> shared_dims() const { return {}; }
};

}  // namespace mstrain
