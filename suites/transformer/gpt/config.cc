#include "suites/transformer/gpt/config.h"

namespace mstrain::gpt {

void check_gpt_config(const GptConfig& config, const YamlNode& tree) {
  if (config.hidden_size % config.num_attention_heads != 0) {
    config_fail(tree, "model.num_attention_heads",
                fmt::format("{} heads do not divide hidden_size {}", config.num_attention_heads,
                            config.hidden_size));
  }
}

}  // namespace mstrain::gpt
