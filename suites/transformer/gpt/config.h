// The `model` section of a GPT.
#pragma once

#include "core/base/config.h"
#include "core/nn/activation.h"
#include "suites/transformer/hf/sections.h"

namespace mstrain::gpt {

enum class ModelType { kGpt };

struct DropoutConfig {
  double hidden = 0;
  double attention = 0;
  double embedding = 0;

  bool any() const { return hidden > 0 || attention > 0 || embedding > 0; }

  template <class V>
  void fields(V& v) {
    v("hidden", hidden, "of what attention and MLP add to the stream",
      rule::at_least(0).below(1).elsewhere_called({"resid_pdrop", "hidden_dropout_prob"}));
    v("attention", attention, "of attention probabilities",
      rule::at_least(0).below(1).elsewhere_called(
          {"attn_pdrop", "attention_dropout", "attention_probs_dropout_prob"}));
    v("embedding", embedding, "of the sum of embeddings",
      rule::at_least(0).below(1).elsewhere_called({"embd_pdrop"}));
  }
};

struct GptConfig {
  ModelType type = ModelType::kGpt;
  AutoOr<int64_t> vocab_size;  // auto: the tokenizer's
  int64_t hidden_size = 768;
  int64_t num_layers = 12;
  int64_t num_attention_heads = 12;
  std::optional<int64_t> ffn_hidden_size;
  int64_t max_position_embeddings = 1024;
  Activation activation = Activation::kGeluNew;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  NormConfig norm{1e-5};
  DropoutConfig dropout;
  double label_smoothing = 0;
  bool tie_embeddings = true;
  AutoOr<HeadType> head;  // auto: kNextToken, where no objective says otherwise
  InitConfig init;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"gpt"}).elsewhere_called({"model_type"}));
    v("vocab_size", vocab_size, "tokens; auto: as many as the tokenizer has",
      rule::at_least(1).elsewhere_called({"padded_vocab_size", "n_vocab"}));
    v("hidden_size", hidden_size, "width of the stream",
      rule::at_least(1).elsewhere_called({"n_embd", "d_model", "n_embed", "embed_dim", "dim"}));
    v("num_layers", num_layers, "blocks",
      rule::at_least(1).at_most(4096).elsewhere_called(
          {"n_layer", "num_hidden_layers", "n_layers", "depth"}));
    v("num_attention_heads", num_attention_heads, "heads; must divide hidden_size",
      rule::at_least(1).elsewhere_called({"n_head", "n_heads", "num_heads"}));
    v("ffn_hidden_size", ffn_hidden_size, "width inside the MLP; null: 4 hidden_size",
      rule::at_least(1).elsewhere_called({"n_inner", "intermediate_size", "d_ff"}));
    v("max_position_embeddings", max_position_embeddings, "longest sequence",
      rule::at_least(1).elsewhere_called({"n_positions", "n_ctx", "block_size", "context_length"}));
    v("activation", activation, "inside the MLP",
      rule::one_of({"gelu", "gelu_new", "relu", "silu", "tanh"})
          .elsewhere_called({"activation_function", "hidden_act"}));
    v("scale_attn_weights", scale_attn_weights, "attention scores are divided by sqrt(head_dim)");
    v("scale_attn_by_inverse_layer_idx", scale_attn_by_inverse_layer_idx,
      "and by the number of the layer, from 1");
    v("norm", norm, "layer norms");
    v("dropout", dropout, "probabilities of dropping an element in training");
    v("label_smoothing", label_smoothing,
      "share of a target's probability that training spreads over all tokens",
      rule::at_least(0).below(1));
    v("tie_embeddings", tie_embeddings, "token embeddings are the output layer's weights too",
      rule::elsewhere_called({"tie_word_embeddings", "untie_embeddings_and_output_weights"}));
    head_field(v, head);
    v("init", init, "initial weights");
  }

  int64_t head_dim() const { return hidden_size / num_attention_heads; }
  // The factor of the attention scores of layer i, from 0.
  double attention_scale(int64_t layer) const;
  int64_t longest_sequence() const { return max_position_embeddings; }
  int64_t ffn_dim() const { return ffn_hidden_size.value_or(4 * hidden_size); }
};

// What one key alone cannot tell. Throws ConfigError, with the line where `tree`, the whole configuration, is what
// `config` was read from.
void check_config(const GptConfig& config, const YamlNode& tree = YamlNode());

// Where a null stands for a number, it is that number.
GptConfig chosen(GptConfig config);

// Biases and norms are left out.
double about_parameters(const GptConfig& config);

}  // namespace mstrain::gpt
