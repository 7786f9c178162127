#include "suites/transformer/vit/network.h"

#include "core/ops/cross_entropy.h"
#include "suites/transformer/vit/model.h"

namespace mstrain::vit {

std::vector<ParamSpec> VitNetwork::specs() const { return Vit(config_).specs(); }

YamlNode VitNetwork::section() const {
  VitConfig open = config_;
  open.num_classes = {};
  return write_config(open);
}

std::vector<std::pair<std::string, std::string>> VitNetwork::identity() const {
  return weight_keys(write_config(chosen(config_)),
                     [](const std::string& key) { return key == "model.num_classes"; });
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
  if (const Tensor labels_b = given(inputs, "labels"); labels_b.defined()) {
    out.loss = cross_entropy(out.logits, labels_b);
  }
  return out;
}

}  // namespace mstrain::vit
