#include "suites/transformer/llama/network.h"

#include "suites/transformer/llama/hf_names.h"
#include "suites/transformer/llama/model.h"

namespace mstrain::llama {

LlamaNetwork::LlamaNetwork(const LlamaConfig& config) : config_(config) {
  check_llama_config(config);
}

Shape LlamaNetwork::stored_shape(const std::string& name, const Shape& shape) const {
  return hf_shape(name, shape);
}

StoredMeaning LlamaNetwork::meaning(const std::string& stored) const {
  return hf_meaning(stored, config_.tie_embeddings);
}

OrderedJson LlamaNetwork::description(const Json& source) const {
  return hf_config(config_, source);
}

YamlNode LlamaNetwork::section() const { return write_config(config_); }

std::vector<std::pair<std::string, std::string>> LlamaNetwork::identity() const {
  LlamaConfig chosen = config_;
  chosen.ffn_hidden_size = config_.ffn_dim();
  chosen.num_key_value_heads = config_.key_value_heads();
  chosen.head_dim = config_.head_width();
  return model_keys(write_config(chosen), [](const std::string& key) {
    return key.starts_with("model.dropout.") || key.starts_with("model.init.") ||
           key == "model.label_smoothing";
  });
}

std::shared_ptr<const CausalModel> LlamaNetwork::model() const {
  return std::make_shared<Llama>(config_);
}

}  // namespace mstrain::llama
