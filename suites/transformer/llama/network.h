// A Llama as the house sees it.
#pragma once

#include "suites/transformer/llama/config.h"
#include "suites/transformer/text/causal_network.h"

namespace mstrain::llama {

class LlamaNetwork final : public CausalNetwork {
 public:
  // Throws ConfigError for a configuration that check_llama_config() rejects.
  explicit LlamaNetwork(const LlamaConfig& config);

  const LlamaConfig& config() const { return config_; }

  int64_t num_layers() const override { return config_.num_layers; }
  std::optional<int64_t> ids() const override { return config_.vocab_size.value; }
  Shape stored_shape(const std::string& name, const Shape& shape) const override;
  StoredMeaning meaning(const std::string& stored) const override;
  OrderedJson description(const Json& source) const override;
  YamlNode section() const override;
  std::vector<std::pair<std::string, std::string>> identity() const override;

 protected:
  std::shared_ptr<const CausalModel> model() const override;

 private:
  LlamaConfig config_;
};

}  // namespace mstrain::llama
