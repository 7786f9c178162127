#include "suites/transformer/t5/config.h"

namespace mstrain::t5 {

void check_config(const T5Config& config, const YamlNode& tree) {
  if (config.relative_max_distance <= config.relative_buckets / 2) {
    config_fail(tree, "model.relative_max_distance",
                fmt::format("{} is not above half of the {} relative_buckets, which tell as many "
                            "distances apart one by one",
                            config.relative_max_distance, config.relative_buckets));
  }
  if (config.gated && config.activation == Activation::kGelu) {
    config_fail(tree, "model.activation",
                "gelu: Hugging Face's T5 has no name for it where model.gated is true; expected "
                "gelu_new, or relu");
  }
  if (config.vocab_size.is_word()) {
    return;
  }
  const int64_t vocab = *config.vocab_size.value;
  for (const auto& [key, id] : {std::pair("pad_token", config.pad_token),
                                {"eos_token", config.eos_token},
                                {"decoder_start_token", config.decoder_start_token}}) {
    if (!id.is_word() && *id.value >= vocab) {
      config_fail(tree, fmt::format("model.{}", key),
                  fmt::format("{} is not below model.vocab_size {}", *id.value, vocab));
    }
  }
}

T5Config chosen(T5Config config) {
  config.num_decoder_layers = config.decoder_layers();
  config.scale_outputs = config.scales_outputs();
  return config;
}

}  // namespace mstrain::t5
