#include "suites/transformer/vit/config.h"

namespace mstrain::vit {

void check_config(const VitConfig& config, const YamlNode& tree) {
  if (config.hidden_size % config.num_attention_heads != 0) {
    config_fail(tree, "model.num_attention_heads",
                fmt::format("{} heads do not divide hidden_size {}", config.num_attention_heads,
                            config.hidden_size));
  }
  if (config.image_size % config.patch_size != 0) {
    config_fail(
        tree, "model.image_size",
        fmt::format("{} is no multiple of patch_size {}", config.image_size, config.patch_size));
  }
}

VitConfig chosen(VitConfig config) {
  config.ffn_hidden_size = config.ffn_dim();
  return config;
}

}  // namespace mstrain::vit
