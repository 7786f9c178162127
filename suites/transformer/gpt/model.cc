#include "suites/transformer/gpt/model.h"

#include <cmath>

#include "core/nn/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/ops/stage.h"

namespace mstrain::gpt {

Gpt::Gpt(const GptConfig& config, Recompute recompute) : config_(config), recompute_(recompute) {
  check_config(config);
  if (config.vocab_size.is_word()) {
    throw ConfigError("model.vocab_size: the model needs a number");
  }
}

AttentionOptions Gpt::attention_options(int64_t layer) const {
  return {.causal = true, .scale = config_.attention_scale(layer)};
}

std::span<const SharedDim> Gpt::shared_dims() const {
  static constexpr SharedDim kTable[] = {{"wte.weight", 0, PartsOfDim::kFilledUp},
                                         {"lm_head.weight", 0, PartsOfDim::kFilledUp},
                                         {"attn.c_attn.weight", 2},
                                         {"attn.c_attn.bias", 1},
                                         {"attn.c_proj.weight", 0},
                                         {"mlp.c_fc.weight", 1},
                                         {"mlp.c_fc.bias", 0},
                                         {"mlp.c_proj.weight", 0}};
  return kTable;
}

Tensor Gpt::features(const Params& p, const Tensor& tokens_bt, const TokenView& view) const {
  const Params transformer = p / "transformer";
  Tensor x_btc = embed(transformer, tokens_bt, view.positions_bt);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const auto layer = [&](const Tensor& x) { return block(transformer / "h" / i, x, i, view); };
    x_btc = model_layer(i, view.kept(recompute_), layer, x_btc);
  }
  return layer_norm(transformer / "ln_f", stage_point(x_btc, config_.num_layers), config_.norm.eps);
}

Weight Gpt::head_weight(const Params& p, bool of_score) const {
  if (of_score) {
    return (p / kScore)
        .weight("weight", {1, config_.hidden_size}, {}, normal_init(config_.init.std));
  }
  const Params head = config_.tie_embeddings ? p / "transformer" / "wte" : p / "lm_head";
  return head.weight("weight", {vocab_size(), config_.hidden_size}, {},
                     normal_init(config_.init.std));
}

Tensor Gpt::embed(const Params& p, const Tensor& tokens_bt, const Tensor& positions_bt) const {
  const NameScope scope = NameScope::absolute(p.path());
  const int64_t t = tokens_bt.dim(1);
  check(positions_bt.defined() || t <= config_.max_position_embeddings,
        "a sequence of {} tokens is longer than model.max_position_embeddings {}", t,
        config_.max_position_embeddings);
  const Init init = normal_init(config_.init.std);
  const Tensor token_btc = embedding(p / "wte", tokens_bt, vocab_size(), config_.hidden_size, init);
  const Tensor positions =
      (p / "wpe").get("weight", {config_.max_position_embeddings, config_.hidden_size}, init);
  const Tensor position_btc =
      positions_bt.defined() ? embedding(positions, positions_bt) : slice(positions, 0, 0, t);
  return dropout(p / "drop", token_btc + position_btc, config_.dropout.embedding);
}

Tensor Gpt::block(const Params& p, const Tensor& x_btc, int64_t layer,
                  const TokenView& view) const {
  const NameScope scope = NameScope::absolute(p.path());
  const Tensor y_btc = x_btc + self_attention(p, x_btc, layer, view);
  return y_btc + feed_forward(p, y_btc);
}

Tensor Gpt::self_attention(const Params& block, const Tensor& x_btc, int64_t layer,
                           const TokenView& view) const {
  const Params p = block / "attn";
  const NameScope scope = NameScope::absolute(p.path());
  const Shape by_head{3, config_.num_attention_heads, config_.head_dim()};
  const auto project = [&](const Tensor& x) {
    return linear(p / "c_attn", layer_norm(block / "ln_1", x, config_.norm.eps), by_head,
                  {.weight_init = weights()});
  };
  const Tensor qkv_bt3hd = recomputed_cheaply(recompute_, project, x_btc);
  const Tensors q_k_v = unstack(qkv_bt3hd, 2);
  const Tensor& q = q_k_v[0];
  const Tensor& k = q_k_v[1];
  const Tensor& v = q_k_v[2];
  const Tensor out_bthd = view.attend
                              ? view.attend(layer, q, k, v)
                              : attention(p / "attn_dropout", q, k, v, config_.dropout.attention,
                                          attention_options(layer, view));
  const Tensor out_btc = linear(p / "c_proj", out_bthd, {config_.hidden_size},
                                {.in_dims = 2, .weight_init = residual_weights()});
  return dropout(p / "resid_dropout", out_btc, config_.dropout.hidden);
}

Tensor Gpt::feed_forward(const Params& block, const Tensor& x_btc) const {
  const Params p = block / "mlp";
  const NameScope scope = NameScope::absolute(p.path());
  const auto widen = [&](const Tensor& x) {
    return linear(p / "c_fc", layer_norm(block / "ln_2", x, config_.norm.eps), {config_.ffn_dim()},
                  {.weight_init = weights()});
  };
  const auto narrow = [&](const Tensor& x) {
    return linear(p / "c_proj", activate(config_.activation, x), {config_.hidden_size},
                  {.weight_init = residual_weights()});
  };
  const Tensor out_btc =
      recomputed_cheaply(recompute_, narrow, recomputed_cheaply(recompute_, widen, x_btc));
  return dropout(p / "dropout", out_btc, config_.dropout.hidden);
}

Init Gpt::weights() const { return normal_init(config_.init.std); }

// 2L of these are summed up in the stream.
Init Gpt::residual_weights() const {
  return normal_init(config_.init.std / std::sqrt(2.0 * static_cast<double>(config_.num_layers)));
}

}  // namespace mstrain::gpt
