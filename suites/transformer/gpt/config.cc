#include "suites/transformer/gpt/config.h"

#include <cmath>

namespace mstrain::gpt {

double GptConfig::attention_scale(int64_t layer) const {
  const double by_dim = scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_dim())) : 1;
  return scale_attn_by_inverse_layer_idx ? by_dim / static_cast<double>(layer + 1) : by_dim;
}

void check_config(const GptConfig& config, const YamlNode& tree) {
  if (config.hidden_size % config.num_attention_heads != 0) {
    config_fail(tree, "model.num_attention_heads",
                fmt::format("{} heads do not divide hidden_size {}", config.num_attention_heads,
                            config.hidden_size));
  }
}

GptConfig chosen(GptConfig config) {
  config.ffn_hidden_size = config.ffn_dim();
  return config;
}

double about_parameters(const GptConfig& config) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto inner = config.ffn_hidden_size ? static_cast<double>(*config.ffn_hidden_size)
                                            : 4 * hidden;  // what may be no int64_t
  const auto rows =
      static_cast<double>(config.vocab_size.value_or(1)) * (config.tie_embeddings ? 1 : 2) +
      static_cast<double>(config.max_position_embeddings);
  return rows * hidden +
         static_cast<double>(config.num_layers) * (4 * hidden * hidden + 2 * hidden * inner);
}

}  // namespace mstrain::gpt
