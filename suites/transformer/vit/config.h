// The `model` section of a ViT.
#pragma once

#include "core/base/config.h"
#include "core/nn/activation.h"
#include "suites/transformer/hf/sections.h"

namespace mstrain::vit {

enum class ModelType { kVit };

struct DropoutConfig {
  double hidden = 0;
  double attention = 0;

  template <class V>
  void fields(V& v) {
    v("hidden", hidden, "of the embedded patches, and of what attention and MLP add to the stream",
      rule::at_least(0).below(1).elsewhere_called({"hidden_dropout_prob", "drop_rate"}));
    v("attention", attention, "of attention probabilities",
      rule::at_least(0).below(1).elsewhere_called(
          {"attention_probs_dropout_prob", "attn_drop_rate"}));
  }
};

struct VitConfig {
  ModelType type = ModelType::kVit;
  int64_t image_size = 224;
  int64_t patch_size = 16;
  int64_t num_channels = 3;
  AutoOr<int64_t> num_classes;  // auto: those of the data
  int64_t hidden_size = 768;
  int64_t num_layers = 12;
  int64_t num_attention_heads = 12;
  std::optional<int64_t> ffn_hidden_size;
  Activation activation = Activation::kGelu;
  bool qkv_bias = true;
  NormConfig norm{1e-12};
  DropoutConfig dropout;
  double label_smoothing = 0;
  InitConfig init;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"vit"}).elsewhere_called({"model_type"}));
    v("image_size", image_size,
      "height and width for which positions are learned; other images see them interpolated",
      rule::at_least(1).at_most(1 << 14).elsewhere_called({"img_size", "resolution"}));
    v("patch_size", patch_size, "height and width of a patch; must divide image_size",
      rule::at_least(1));
    v("num_channels", num_channels, "of the images; grey ones become as many",
      rule::at_least(1).at_most(1024).elsewhere_called({"in_chans", "channels"}));
    v("num_classes", num_classes, "labels; auto: those of the data",
      rule::at_least(2).elsewhere_called({"num_labels", "n_classes"}));
    v("hidden_size", hidden_size, "width of the stream",
      rule::at_least(1).elsewhere_called({"embed_dim", "d_model", "dim"}));
    v("num_layers", num_layers, "blocks",
      rule::at_least(1).at_most(4096).elsewhere_called(
          {"num_hidden_layers", "n_layer", "n_layers", "depth"}));
    v("num_attention_heads", num_attention_heads, "heads; must divide hidden_size",
      rule::at_least(1).elsewhere_called({"n_head", "n_heads", "num_heads"}));
    v("ffn_hidden_size", ffn_hidden_size, "width inside the MLP; null: 4 hidden_size",
      rule::at_least(1).elsewhere_called({"intermediate_size", "mlp_dim", "d_ff"}));
    v("activation", activation, "inside the MLP",
      rule::one_of({"gelu", "gelu_new", "relu", "silu", "tanh"}).elsewhere_called({"hidden_act"}));
    v("qkv_bias", qkv_bias, "queries, keys and values have biases");
    v("norm", norm, "layer norms");
    v("dropout", dropout, "probabilities of dropping an element in training");
    v("label_smoothing", label_smoothing,
      "share of a target's probability that training spreads over all labels",
      rule::at_least(0).below(1).elsewhere_called({"smoothing"}));
    v("init", init, "initial weights");
  }

  int64_t head_dim() const { return hidden_size / num_attention_heads; }
  int64_t ffn_dim() const { return ffn_hidden_size.value_or(4 * hidden_size); }
  int64_t grid() const { return image_size / patch_size; }  // patches along a side
};

// What one key alone cannot tell. Throws ConfigError, with the line where `tree`, the whole configuration, is what
// `config` was read from.
void check_config(const VitConfig& config, const YamlNode& tree = YamlNode());

// Where a null stands for a number, it is that number.
VitConfig chosen(VitConfig config);

}  // namespace mstrain::vit
