#include "suites/transformer/gpt/config.h"

#include <cmath>

namespace mstrain::gpt {

double GptConfig::attention_scale(int64_t layer) const {
  const double by_dim = scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_dim())) : 1;
  return scale_attn_by_inverse_layer_idx ? by_dim / static_cast<double>(layer + 1) : by_dim;
}

void check_gpt_config(const GptConfig& config, const YamlNode& tree) {
  if (config.hidden_size % config.num_attention_heads != 0) {
    config_fail(tree, "model.num_attention_heads",
                fmt::format("{} heads do not divide hidden_size {}", config.num_attention_heads,
                            config.hidden_size));
  }
}

}  // namespace mstrain::gpt
