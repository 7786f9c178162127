// A GPT as the house sees it.
#pragma once

#include "suites/run/network.h"
#include "suites/transformer/gpt/config.h"

namespace mstrain::gpt {

class GptNetwork final : public Network {
 public:
  // Throws ConfigError for a configuration that check_gpt_config() rejects.
  explicit GptNetwork(const GptConfig& config);

  const GptConfig& config() const { return config_; }

  std::vector<ParamSpec> specs() const override;
  int64_t num_layers() const override { return config_.num_layers; }
  std::optional<int64_t> ids() const override { return config_.vocab_size.value; }
  Shape stored_shape(const std::string& name, const Shape& shape) const override;
  StoredMeaning meaning(const std::string& stored) const override;
  OrderedJson description(const Json& source) const override;
  YamlNode section() const override;
  std::vector<std::pair<std::string, std::string>> identity() const override;
  // input_ids[b, t], attention_mask[b, t] (1: seen, 0: padding), position_ids[b, t], labels[b, t] (-100: not counted). The
  // loss is the mean over positions 0 … t - 2 of the cross-entropy of the label that follows. Of a query that sees no key
  // attention is zero.
  std::vector<InputSpec> inputs() const override;
  Computed compute(const Params& params, const NamedTensors& inputs) const override;
  std::unique_ptr<TextWriter> writer(std::shared_ptr<const Tokenizer> tokenizer,
                                     Execution execution) const override;

 private:
  GptConfig config_;
};

}  // namespace mstrain::gpt
