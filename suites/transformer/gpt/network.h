// A GPT as the house sees it.
#pragma once

#include "suites/transformer/gpt/config.h"
#include "suites/transformer/text/causal_network.h"

namespace mstrain::gpt {

class GptNetwork final : public CausalNetwork {
 public:
  // Throws ConfigError for a configuration that check_gpt_config() rejects.
  explicit GptNetwork(const GptConfig& config);

  const GptConfig& config() const { return config_; }

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
  GptConfig config_;
};

}  // namespace mstrain::gpt
