#include "suites/transformer/gpt/network.h"

#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"

namespace mstrain::gpt {

GptNetwork::GptNetwork(const GptConfig& config) : config_(config) { check_gpt_config(config); }

Shape GptNetwork::stored_shape(const std::string& name, const Shape& shape) const {
  return hf_shape(name, shape);
}

StoredMeaning GptNetwork::meaning(const std::string& stored) const {
  return hf_meaning(stored, config_.tie_embeddings);
}

OrderedJson GptNetwork::description(const Json& source) const { return hf_config(config_, source); }

YamlNode GptNetwork::section() const { return write_config(config_); }

std::vector<std::pair<std::string, std::string>> GptNetwork::identity() const {
  GptConfig chosen = config_;
  chosen.ffn_hidden_size = config_.ffn_dim();
  return model_keys(write_config(chosen), [](const std::string& key) {
    return key.starts_with("model.dropout.") || key.starts_with("model.init.") ||
           key == "model.label_smoothing";
  });
}

std::shared_ptr<const CausalModel> GptNetwork::model() const {
  return std::make_shared<Gpt>(config_);
}

}  // namespace mstrain::gpt
