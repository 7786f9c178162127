// A ViT as the house sees it.
#pragma once

#include "suites/transformer/hf/network_of.h"
#include "suites/transformer/vit/hf_names.h"

namespace mstrain::vit {

class VitNetwork final : public NetworkOf<VitConfig> {
 public:
  // `labels` names them, for config.json.
  explicit VitNetwork(const VitConfig& config, std::vector<std::string> labels = {})
      : NetworkOf(config), labels_(std::move(labels)) {}

  std::vector<ParamSpec> specs() const override;
  int64_t num_layers() const override { return config_.num_layers; }
  std::optional<int64_t> ids() const override { return config_.num_classes.value; }
  bool redraws(const std::string& name) const override { return name.starts_with("classifier."); }
  std::vector<OtherName> other_names() const override { return hf_other_names(config_); }
  OrderedJson description(const Json& source) const override {
    return hf_config(config_, source, labels_);
  }
  // Without num_classes: whoever begins with this network has labels of its own.
  YamlNode section() const override;
  std::vector<std::pair<std::string, std::string>> identity() const override;
  // pixel_values[b, channels, height, width], heights and widths other than image_size as `transformers` has them with
  // interpolate_pos_encoding; labels[b] (-100: not counted). The loss is their mean cross-entropy.
  std::vector<InputSpec> inputs() const override;
  Computed compute(const Params& params, const NamedTensors& inputs) const override;

 private:
  std::vector<std::string> labels_;
};

}  // namespace mstrain::vit
