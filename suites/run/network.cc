#include "suites/run/network.h"

namespace mstrain {

Shape Network::stored_shape(const std::string&, const Shape& shape) const { return shape; }

bool Network::redraws(const std::string&) const { return false; }

TokensBeside Network::tokens_beside(std::shared_ptr<const Tokenizer>) const { return {}; }

std::unique_ptr<TextWriter> Network::writer(std::shared_ptr<const Tokenizer>, Execution) const {
  return nullptr;
}

std::vector<Shape> stored_shapes(const Network& network, std::span<const ParamSpec> specs) {
  std::vector<Shape> out;
  for (const ParamSpec& spec : specs) {
    out.push_back(network.stored_shape(spec.name, spec.type.shape));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> weight_keys(
    const YamlNode& model, const std::function<bool(const std::string& key)>& leaves_out) {
  YamlNode tree = YamlNode::map();
  tree.add("model", model);
  auto keys = flatten_config(tree);
  std::erase_if(keys, [&](const auto& pair) {
    const std::string& key = pair.first;
    return key == "model.dropout" || key.starts_with("model.dropout.") ||
           key.starts_with("model.init.") || key == "model.label_smoothing" ||
           (leaves_out != nullptr && leaves_out(key));
  });
  return keys;
}

Tensor given(const NamedTensors& inputs, const std::string& name) {
  const auto found = inputs.find(name);
  return found == inputs.end() ? Tensor() : found->second;
}

}  // namespace mstrain
