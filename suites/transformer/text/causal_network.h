// What all language models share as networks: what `mstrain forward` gives them, and how they write.
#pragma once

#include "suites/transformer/hf/network_of.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain {

class CausalNetwork : public Network {
 public:
  std::vector<ParamSpec> specs() const override { return model()->specs(); }
  // input_ids[b, t], attention_mask[b, t] (1: seen, 0: padding), position_ids[b, t], labels[b, t] (-100: not counted). The
  // loss is the mean over positions 0 … t - 2 of the cross-entropy of the label that follows. Of a query that sees no key
  // attention is zero. With a head of scores logits are [b, 1], of the last token that is seen, and there are no labels.
  std::vector<InputSpec> inputs() const override;
  Computed compute(const Params& params, const NamedTensors& inputs) const override;
  bool scores_texts() const override { return model()->head() == HeadType::kScore; }
  std::unique_ptr<TextWriter> writer(std::shared_ptr<const Tokenizer> tokenizer,
                                     Execution execution) const override;

 protected:
  // Throws ConfigError where the number of tokens is left open.
  virtual std::shared_ptr<const CausalModel> model() const = 0;
};

// `Model` is made of a Config, and perhaps of a Recompute.
template <class Config, class Model>
class CausalNetworkOf final : public NetworkOf<Config, CausalNetwork> {
 public:
  using NetworkOf<Config, CausalNetwork>::NetworkOf;

  int64_t num_layers() const override { return this->config_.num_layers; }
  std::optional<int64_t> ids() const override { return this->config_.vocab_size.value; }
  // Whoever begins with this network says what head it is to have.
  YamlNode section() const override {
    Config open = this->config_;
    open.head = {};
    return write_config(open);
  }
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return weight_keys(write_config(chosen(this->config_)),
                       [](const std::string& key) { return key == "model.head"; });
  }
  bool redraws(const std::string& name) const override { return name == kScoreWeight; }
  std::vector<std::string> copies() const override {
    const bool has_logits = head_of(this->config_.head) != HeadType::kScore;
    return this->config_.tie_embeddings && has_logits ? std::vector<std::string>{"lm_head.weight"}
                                                      : std::vector<std::string>();
  }

 protected:
  std::shared_ptr<const CausalModel> model() const override {
    return std::make_shared<Model>(this->config_);
  }
};

}  // namespace mstrain
