// The `model` section of a Llama and its kin: Llama 2 and 3, Mistral, Qwen2 and 3.
#pragma once

#include "core/base/config.h"
#include "core/nn/activation.h"
#include "core/nn/rotary.h"
#include "suites/transformer/hf/sections.h"

namespace mstrain::llama {

enum class ModelType { kLlama };

// Which projections of attention have biases: those of queries, keys and values (Qwen2), or also that of the result.
enum class AttentionBias { kNone, kQkv, kAll };

struct DropoutConfig {
  double attention = 0;

  template <class V>
  void fields(V& v) {
    v("attention", attention, "of attention probabilities",
      rule::at_least(0).below(1).elsewhere_called({"attention_dropout", "attn_pdrop"}));
  }
};

struct LlamaConfig {
  ModelType type = ModelType::kLlama;
  AutoOr<int64_t> vocab_size;  // auto: the tokenizer's
  int64_t hidden_size = 768;
  int64_t num_layers = 12;
  int64_t num_attention_heads = 12;
  std::optional<int64_t> num_key_value_heads;
  std::optional<int64_t> head_dim;
  std::optional<int64_t> ffn_hidden_size;
  int64_t max_position_embeddings = 2048;
  Activation activation = Activation::kSilu;
  AttentionBias attention_bias = AttentionBias::kNone;
  bool mlp_bias = false;
  bool qk_norm = false;
  std::optional<int64_t> sliding_window;
  int64_t full_attention_layers = 0;
  RopeConfig rope;
  NormConfig norm{1e-5};
  DropoutConfig dropout;
  double label_smoothing = 0;
  bool tie_embeddings = false;
  AutoOr<HeadType> head;  // auto: kNextToken, where no objective says otherwise
  InitConfig init;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"llama"}).elsewhere_called({"model_type"}));
    v("vocab_size", vocab_size, "tokens; auto: as many as the tokenizer has",
      rule::at_least(1).elsewhere_called({"padded_vocab_size", "n_vocab"}));
    v("hidden_size", hidden_size, "width of the stream",
      rule::at_least(1).elsewhere_called({"n_embd", "d_model", "embed_dim", "dim"}));
    v("num_layers", num_layers, "blocks",
      rule::at_least(1).at_most(4096).elsewhere_called(
          {"n_layer", "num_hidden_layers", "n_layers", "depth"}));
    v("num_attention_heads", num_attention_heads, "heads of queries",
      rule::at_least(1).elsewhere_called({"n_head", "n_heads", "num_heads"}));
    v("num_key_value_heads", num_key_value_heads,
      "heads of keys and values, each for equally many of queries; null: num_attention_heads",
      rule::at_least(1).elsewhere_called({"n_kv_heads", "num_kv_heads", "num_query_groups"}));
    v("head_dim", head_dim, "width of a head, even; null: hidden_size / num_attention_heads",
      rule::at_least(2).elsewhere_called({"kv_channels"}));
    v("ffn_hidden_size", ffn_hidden_size,
      "width inside the MLP; null: 8/3 hidden_size, up to a multiple of 256",
      rule::at_least(1).elsewhere_called({"intermediate_size", "n_inner", "d_ff"}));
    v("max_position_embeddings", max_position_embeddings, "longest sequence",
      rule::at_least(1).elsewhere_called(
          {"n_positions", "n_ctx", "max_seq_len", "context_length"}));
    v("activation", activation, "of the gate inside the MLP",
      rule::one_of({"gelu", "gelu_new", "relu", "silu", "tanh"}).elsewhere_called({"hidden_act"}));
    v("attention_bias", attention_bias,
      "which of attention's projections have biases; qkv: those of queries, keys and values",
      rule::one_of({"none", "qkv", "all"}).elsewhere_called({"add_qkv_bias"}));
    v("mlp_bias", mlp_bias, "the MLP's projections have biases");
    v("qk_norm", qk_norm, "an RMS norm of each head of queries, and of keys, before they turn",
      rule::elsewhere_called({"qk_layernorm", "use_qk_norm"}));
    v("sliding_window", sliding_window,
      "how many tokens a token sees, itself among them; null: all before it", rule::at_least(1));
    v("full_attention_layers", full_attention_layers,
      "the first layers, without the window, where there is one",
      rule::at_least(0).elsewhere_called({"max_window_layers"}));
    v("rope", rope, "rotary positions",
      rule::elsewhere_called({"rope_scaling", "rope_parameters"}));
    v("norm", norm, "RMS norms");
    v("dropout", dropout, "probabilities of dropping an element in training");
    v("label_smoothing", label_smoothing,
      "share of a target's probability that training spreads over all tokens",
      rule::at_least(0).below(1));
    v("tie_embeddings", tie_embeddings, "token embeddings are the output layer's weights too",
      rule::elsewhere_called({"tie_word_embeddings", "untie_embeddings_and_output_weights"}));
    head_field(v, head);
    v("init", init, "initial weights");
  }

  int64_t key_value_heads() const { return num_key_value_heads.value_or(num_attention_heads); }
  int64_t head_width() const { return head_dim.value_or(hidden_size / num_attention_heads); }
  int64_t ffn_dim() const;
  // What `dynamic` stretches is more than max_position_embeddings.
  int64_t longest_sequence() const;
  // How many tokens a token of layer i, from 0, sees; none: all before it.
  std::optional<int64_t> window(int64_t layer) const {
    return layer < full_attention_layers ? std::nullopt : sliding_window;
  }
};

// What one key alone cannot tell. Throws ConfigError, with the line where `tree`, the whole configuration, is what
// `config` was read from.
void check_config(const LlamaConfig& config, const YamlNode& tree = YamlNode());

// Where a null stands for a number, it is that number.
LlamaConfig chosen(LlamaConfig config);

// Biases and norms are left out.
double about_parameters(const LlamaConfig& config);

}  // namespace mstrain::llama
