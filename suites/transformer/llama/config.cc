#include "suites/transformer/llama/config.h"

#include <algorithm>

#include "suites/transformer/llama/hf_names.h"

namespace mstrain::llama {

int64_t LlamaConfig::ffn_dim() const {
  constexpr int64_t kUnit = 256;
  return ffn_hidden_size.value_or((8 * hidden_size / 3 + kUnit - 1) / kUnit * kUnit);
}

int64_t LlamaConfig::longest_sequence() const {
  const double stretch = rope.type == RopeType::kDynamic ? rope.factor : 1;
  return static_cast<int64_t>(
      std::min(stretch * static_cast<double>(max_position_embeddings), 0x1p62));
}

void check_config(const LlamaConfig& config, const YamlNode& tree) {
  const int64_t heads = config.num_attention_heads;
  if (!config.head_dim && config.hidden_size % heads != 0) {
    config_fail(tree, "model.num_attention_heads",
                fmt::format("{} heads do not divide hidden_size {}; or give head_dim", heads,
                            config.hidden_size));
  }
  if (heads % config.key_value_heads() != 0) {
    config_fail(tree, "model.num_key_value_heads",
                fmt::format("{} heads of keys do not divide {} of queries",
                            config.key_value_heads(), heads));
  }
  if (config.head_width() % 2 != 0) {
    config_fail(
        tree, config.head_dim ? "model.head_dim" : "model.num_attention_heads",
        fmt::format("heads are {} wide; rotary positions turn pairs, and need an even width",
                    config.head_width()));
  }
  if (config.full_attention_layers > 0 && !config.sliding_window) {
    config_fail(tree, "model.full_attention_layers", "means nothing without model.sliding_window");
  }
  check_rope_config(config.rope, "model.rope", config.head_width(), tree);
  if (families_of(config).empty()) {
    config_fail(
        tree, "model.attention_bias",
        "no family that checkpoints are written as (llama, mistral, qwen2, qwen3) has these biases "
        "together with this window and this qk_norm; llama has biases, mistral a window, qwen2 "
        "those of qkv and a window, qwen3 norms, biases of all of attention and a window");
  }
}

LlamaConfig chosen(LlamaConfig config) {
  config.ffn_hidden_size = config.ffn_dim();
  config.num_key_value_heads = config.key_value_heads();
  config.head_dim = config.head_width();
  return config;
}

double about_parameters(const LlamaConfig& config) {
  const auto number = [](int64_t x) { return static_cast<double>(x); };
  const double hidden = number(config.hidden_size);
  const double heads = number(config.num_attention_heads) + number(config.key_value_heads());
  const double width =
      config.head_dim ? number(*config.head_dim) : hidden / number(config.num_attention_heads);
  const double inner = config.ffn_hidden_size ? number(*config.ffn_hidden_size) : 8 * hidden / 3;
  const double rows = number(config.vocab_size.value_or(1)) * (config.tie_embeddings ? 1 : 2);
  const double layer = 2 * hidden * heads * width + 3 * hidden * inner;
  return rows * hidden + number(config.num_layers) * layer;
}

}  // namespace mstrain::llama
