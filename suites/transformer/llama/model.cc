#include "suites/transformer/llama/model.h"

#include <cmath>

#include "core/nn/attention.h"
#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/stage.h"

namespace mstrain::llama {

Llama::Llama(const LlamaConfig& config, Recompute recompute)
    : config_(config), recompute_(recompute) {
  check_config(config);
  if (config.vocab_size.is_word()) {
    throw ConfigError("model.vocab_size: the model needs a number");
  }
}

AttentionOptions Llama::attention_options(int64_t layer) const {
  return {.causal = true, .window = config_.window(layer).value_or(0)};
}

std::span<const SharedDim> Llama::shared_dims() const {
  // A rank of more than there are key heads takes the one that its query heads read.
  static constexpr SharedDim kTable[] = {{"embed_tokens.weight", 0, PartsOfDim::kFilledUp},
                                         {"lm_head.weight", 0, PartsOfDim::kFilledUp},
                                         {"q_proj.weight", 0},
                                         {"q_proj.bias", 0},
                                         {"k_proj.weight", 0, PartsOfDim::kWholeIfFewer},
                                         {"k_proj.bias", 0, PartsOfDim::kWholeIfFewer},
                                         {"v_proj.weight", 0, PartsOfDim::kWholeIfFewer},
                                         {"v_proj.bias", 0, PartsOfDim::kWholeIfFewer},
                                         {"o_proj.weight", 1},
                                         {"gate_proj.weight", 0},
                                         {"gate_proj.bias", 0},
                                         {"up_proj.weight", 0},
                                         {"up_proj.bias", 0},
                                         {"down_proj.weight", 1}};
  return kTable;
}

Tensor Llama::features(const Params& p, const Tensor& tokens_bt, const TokenView& view) const {
  const Params model = p / "model";
  Tensor x_btc = embedding(model / "embed_tokens", tokens_bt, vocab_size(), config_.hidden_size,
                           normal_init(config_.init.std));
  const Rotation rotation = rotation_of(tokens_bt, view, accumulation_dtype(x_btc.dtype()));
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const auto layer = [&](const Tensor& x) {
      return block(model / "layers" / i, x, i, rotation, view);
    };
    x_btc = model_layer(i, view.kept(recompute_), layer, x_btc);
  }
  return rms_norm(model / "norm", stage_point(x_btc, config_.num_layers), config_.norm.eps);
}

Rotation Llama::rotation_of(const Tensor& tokens_bt, const TokenView& view, Dtype dtype) const {
  const NameScope scope("rotary");
  const int64_t t = tokens_bt.dim(1);
  const Tensor positions =
      view.positions_bt.defined() ? view.positions_bt : iota({1, t}, 1, Dtype::kI32);
  Tensor lengths = view.lengths_b;
  if (!lengths.defined()) {
    lengths = view.positions_bt.defined() ? reshape(max(view.positions_bt), {1}) + 1
                                          : full({1}, static_cast<double>(t), Dtype::kI32);
  }
  return rotation(config_.rope, config_.head_width(), config_.max_position_embeddings, positions,
                  lengths, dtype);
}

Weight Llama::head_weight(const Params& p, bool of_score) const {
  if (of_score) {
    return (p / kScore)
        .weight("weight", {1, config_.hidden_size}, {}, normal_init(config_.init.std));
  }
  const Params head = config_.tie_embeddings ? p / "model" / "embed_tokens" : p / "lm_head";
  return head.weight("weight", {vocab_size(), config_.hidden_size}, {},
                     normal_init(config_.init.std));
}

Tensor Llama::block(const Params& p, const Tensor& x_btc, int64_t layer, const Rotation& rotation,
                    const TokenView& view) const {
  const NameScope scope = NameScope::absolute(p.path());
  const Tensor y_btc = x_btc + self_attention(p, x_btc, layer, rotation, view);
  return y_btc + feed_forward(p, y_btc);
}

Tensor Llama::self_attention(const Params& block, const Tensor& x_btc, int64_t layer,
                             const Rotation& rotation, const TokenView& view) const {
  const Params p = block / "self_attn";
  const NameScope scope = NameScope::absolute(p.path());
  const int64_t heads = config_.num_attention_heads;
  const int64_t key_heads = config_.key_value_heads();
  const auto project = [&](const Tensor& x) {
    const Tensor normal_btc = rms_norm(block / "input_layernorm", x, config_.norm.eps);
    const auto by_head = [&](const char* name, int64_t count) {
      return linear(p / name, normal_btc, {count, config_.head_width()},
                    projection(config_.attention_bias != AttentionBias::kNone));
    };
    const auto turned = [&](const char* name, const char* norm, int64_t count) {
      const Tensor x_bthd = by_head(name, count);
      return rotary(config_.qk_norm ? rms_norm(p / norm, x_bthd, config_.norm.eps) : x_bthd,
                    rotation.cos, rotation.sin);
    };
    return Tensors{turned("q_proj", "q_norm", heads), turned("k_proj", "k_norm", key_heads),
                   by_head("v_proj", key_heads)};
  };
  const Tensors q_k_v = recomputed_cheaply(recompute_, project, x_btc);
  const Tensor& q = q_k_v[0];
  const Tensor& k = q_k_v[1];
  const Tensor& v = q_k_v[2];
  const Tensor out_bthd = view.attend ? view.attend(layer, q, k, v)
                                      : attention(p / "dropout", q, k, v, config_.dropout.attention,
                                                  attention_options(layer, view));
  LinearOptions out = residual_projection(config_.attention_bias == AttentionBias::kAll);
  out.in_dims = 2;
  return linear(p / "o_proj", out_bthd, {config_.hidden_size}, out);
}

Tensor Llama::feed_forward(const Params& block, const Tensor& x_btc) const {
  const Params p = block / "mlp";
  const NameScope scope = NameScope::absolute(p.path());
  const auto widen = [&](const Tensor& x) {
    const Tensor normal_btc = rms_norm(block / "post_attention_layernorm", x, config_.norm.eps);
    const auto wide = [&](const char* name) {
      return linear(p / name, normal_btc, {config_.ffn_dim()}, projection(config_.mlp_bias));
    };
    return Tensors{wide("gate_proj"), wide("up_proj")};
  };
  const auto narrow = [&](const Tensors& gate_and_up) {
    const Tensor inner = activate(config_.activation, gate_and_up[0]) * gate_and_up[1];
    return linear(p / "down_proj", inner, {config_.hidden_size},
                  residual_projection(config_.mlp_bias));
  };
  return recomputed_cheaply(recompute_, narrow, recomputed_cheaply(recompute_, widen, x_btc));
}

LinearOptions Llama::projection(bool bias) const {
  return {.bias = bias, .out_first = true, .weight_init = normal_init(config_.init.std)};
}

// 2L of these are summed up in the stream.
LinearOptions Llama::residual_projection(bool bias) const {
  LinearOptions options = projection(bias);
  options.weight_init =
      normal_init(config_.init.std / std::sqrt(2.0 * static_cast<double>(config_.num_layers)));
  return options;
}

}  // namespace mstrain::llama
