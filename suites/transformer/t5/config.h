// The `model` section of a T5.
#pragma once

#include "core/base/config.h"
#include "core/data/seq2seq_vocabulary.h"
#include "core/nn/activation.h"
#include "suites/transformer/hf/sections.h"

namespace mstrain::t5 {

enum class ModelType { kT5 };

struct InitConfig : InitFrom {
  double factor = 1;

  template <class V>
  void fields(V& v) {
    v("factor", factor,
      "of all initial weights, whose deviations follow from the widths of their layers",
      rule::at_least(0).elsewhere_called({"initializer_factor"}));
    InitFrom::fields(v);
  }
};

struct T5Config {
  ModelType type = ModelType::kT5;
  AutoOr<int64_t> vocab_size;  // auto: the tokenizer's and the sentinels'
  int64_t hidden_size = 512;
  int64_t num_layers = 6;
  std::optional<int64_t> num_decoder_layers;
  int64_t num_attention_heads = 8;
  int64_t d_kv = 64;
  int64_t ffn_hidden_size = 2048;
  Activation activation = Activation::kRelu;
  bool gated = false;
  int64_t relative_buckets = 32;
  int64_t relative_max_distance = 128;
  bool tie_embeddings = true;
  std::optional<bool> scale_outputs;
  NormConfig norm{1e-6};
  double dropout = 0;
  double label_smoothing = 0;
  int64_t extra_ids = 100;
  AutoOr<int64_t> pad_token;
  AutoOr<int64_t> eos_token;
  AutoOr<int64_t> decoder_start_token;
  InitConfig init;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"t5"}).elsewhere_called({"model_type"}));
    v("vocab_size", vocab_size, "tokens; auto: as many as the tokenizer and the sentinels take",
      rule::at_least(1).elsewhere_called({"padded_vocab_size", "n_vocab"}));
    v("hidden_size", hidden_size, "width of the stream",
      rule::at_least(1).elsewhere_called({"d_model", "n_embd", "embed_dim", "dim"}));
    v("num_layers", num_layers, "blocks of the encoder",
      rule::at_least(1).at_most(4096).elsewhere_called(
          {"n_layer", "num_hidden_layers", "num_encoder_layers", "n_layers", "depth"}));
    v("num_decoder_layers", num_decoder_layers, "blocks of the decoder; null: as many",
      rule::at_least(1).at_most(4096));
    v("num_attention_heads", num_attention_heads, "heads",
      rule::at_least(1).elsewhere_called({"n_head", "n_heads", "num_heads"}));
    v("d_kv", d_kv, "width of a head",
      rule::at_least(1).elsewhere_called({"head_dim", "key_value_proj_dim"}));
    v("ffn_hidden_size", ffn_hidden_size, "width inside the feed-forward layers",
      rule::at_least(1).elsewhere_called({"d_ff", "n_inner", "intermediate_size"}));
    v("activation", activation, "inside the feed-forward layers",
      rule::one_of({"gelu", "gelu_new", "relu", "silu", "tanh"})
          .elsewhere_called({"feed_forward_proj", "dense_act_fn", "hidden_act"}));
    v("gated", gated, "the activation's result is multiplied by a second projection (T5 v1.1)",
      rule::elsewhere_called({"is_gated_act"}));
    v("relative_buckets", relative_buckets,
      "kinds of distance between two tokens that attention tells apart",
      rule::at_least(4).at_most(4096).elsewhere_called({"relative_attention_num_buckets"}));
    v("relative_max_distance", relative_max_distance, "from which on all distances are one kind",
      rule::at_least(2).elsewhere_called({"relative_attention_max_distance"}));
    v("tie_embeddings", tie_embeddings, "token embeddings are the output layer's weights too",
      rule::elsewhere_called({"tie_word_embeddings", "untie_embeddings_and_output_weights"}));
    v("scale_outputs", scale_outputs,
      "the decoder's result is divided by sqrt(hidden_size) before the output layer; null: where "
      "embeddings are tied",
      rule::elsewhere_called({"scale_decoder_outputs"}));
    v("norm", norm, "norms");
    v("dropout", dropout, "probability of dropping an element in training",
      rule::at_least(0).below(1).elsewhere_called({"dropout_rate"}));
    v("label_smoothing", label_smoothing,
      "share of a target's probability that training spreads over all tokens",
      rule::at_least(0).below(1));
    v("extra_ids", extra_ids,
      "sentinels at the top of the vocabulary, for span corruption; a tokenizer that has them "
      "says itself how many",
      rule::at_least(0).at_most(1 << 20));
    v("pad_token", pad_token,
      "id that fills up samples; auto: the tokenizer's <pad>, else one that follows its ids",
      rule::at_least(0).elsewhere_called({"pad_token_id"}));
    v("eos_token", eos_token,
      "id that ends a text; auto: the tokenizer's, else one that follows its ids",
      rule::at_least(0).elsewhere_called({"eos_token_id"}));
    v("decoder_start_token", decoder_start_token,
      "id that the decoder's text begins with; auto: pad_token",
      rule::at_least(0).elsewhere_called({"decoder_start_token_id"}));
    v("init", init, "initial weights");
  }

  int64_t decoder_layers() const { return num_decoder_layers.value_or(num_layers); }
  bool scales_outputs() const { return scale_outputs.value_or(tie_embeddings); }
  Seq2SeqVocabulary::OfModel tokens() const {
    return {.sentinels = extra_ids, .pad = pad_token.value, .end = eos_token.value};
  }
};

// What one key alone cannot tell. Throws ConfigError, with the line where `tree`, the whole configuration, is what `config`
// was read from.
void check_config(const T5Config& config, const YamlNode& tree = YamlNode());

// Where a null stands for a number, it is that number.
T5Config chosen(T5Config config);

}  // namespace mstrain::t5
