#include "suites/transformer/vit/network.h"

#include "core/ops/cross_entropy.h"
#include "suites/transformer/vit/hf_names.h"
#include "suites/transformer/vit/model.h"

namespace mstrain::vit {

VitNetwork::VitNetwork(const VitConfig& config, std::vector<std::string> labels)
    : config_(config), labels_(std::move(labels)) {
  check_vit_config(config);
}

std::vector<ParamSpec> VitNetwork::specs() const { return Vit(config_).specs(); }

Shape VitNetwork::stored_shape(const std::string& name, const Shape& shape) const {
  return hf_shape(name, shape);
}

StoredMeaning VitNetwork::meaning(const std::string& stored) const { return hf_meaning(stored); }

OrderedJson VitNetwork::description(const Json& source) const {
  return hf_config(config_, source, labels_);
}

YamlNode VitNetwork::section() const {
  VitConfig open = config_;
  open.num_classes = {};
  return write_config(open);
}

std::vector<std::pair<std::string, std::string>> VitNetwork::identity() const {
  VitConfig chosen = config_;
  chosen.ffn_hidden_size = config_.ffn_dim();
  return model_keys(write_config(chosen), [](const std::string& key) {
    return key.starts_with("model.dropout.") || key.starts_with("model.init.") ||
           key == "model.label_smoothing" || key == "model.num_classes";
  });
}

std::vector<InputSpec> VitNetwork::inputs() const {
  return {{"pixel_values",
           {{"batch"}, {"channels", {}, config_.num_channels}, {"height"}, {"width"}},
           {},
           true},
          {"labels", {{"batch"}}, {{0, *config_.num_classes.value, -100}}}};
}

Computed VitNetwork::compute(const Params& params, const NamedTensors& inputs) const {
  Computed out{Vit(config_)(params, inputs.at("pixel_values")), Tensor()};
  if (const auto labels = inputs.find("labels"); labels != inputs.end()) {
    out.loss = cross_entropy(out.logits, labels->second);
  }
  return out;
}

}  // namespace mstrain::vit
