// A network, and a run of it, as far as both follow from the `model` section and from how Hugging Face stores the model.
// Beside its Config a model's folder declares
//   void check_config(const Config&, const YamlNode& tree = {});   what one key alone cannot tell; throws ConfigError
//   Config chosen(Config);                                         where a null stands for a number, that number
//   Shape hf_shape(const Config&, std::string_view name, const Shape&);
//   StoredMeaning hf_meaning(const Config&, const std::string& stored);
//   OrderedJson hf_config(const Config&, const Json& source);
#pragma once

#include "suites/run/model_run.h"

namespace mstrain {

template <class Config, class Base = Network>
class NetworkOf : public Base {
 public:
  // Throws ConfigError for a configuration that check_config() rejects.
  explicit NetworkOf(const Config& config) : config_(config) { check_config(config_); }

  const Config& config() const { return config_; }

  Shape stored_shape(const std::string& name, const Shape& shape) const override {
    return hf_shape(config_, name, shape);
  }
  StoredMeaning meaning(const std::string& stored) const override {
    return hf_meaning(config_, stored);
  }
  OrderedJson description(const Json& source) const override { return hf_config(config_, source); }
  YamlNode section() const override { return write_config(config_); }
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return weight_keys(write_config(chosen(config_)));
  }

 protected:
  Config config_;
};

// `Base` is ModelRun, or what derives from it for a kind of data.
template <class Config, class NetworkType, class Base>
class RunOf : public Base {
 public:
  Config model;

  std::shared_ptr<const Network> network() const override {
    return std::make_shared<NetworkType>(model);
  }
  void take_network(const Network& network) override {
    const auto* const own = dynamic_cast<const NetworkType*>(&network);
    if (own == nullptr) {
      throw ConfigError(
          "model.type: the checkpoint's model is of another type; leave the section model to it");
    }
    model = own->config();
  }

 protected:
  void declare_model(ConfigFields& keys) override { model.fields(keys); }
};

// `from_hf(config_json, source[, holds])` gives the Config of ModelEntry::describe.
template <class Run, class NetworkType, auto from_hf>
ModelEntry entry_of(std::string type, std::vector<std::string> hf_types) {
  return {std::move(type), std::move(hf_types),
          [] { return std::unique_ptr<ModelRun>(std::make_unique<Run>()); },
          [](const Json& json, const std::string& source, const Holds& holds) {
            const auto config = [&] {
              if constexpr (std::is_invocable_v<decltype(from_hf), Json, std::string, Holds>) {
                return from_hf(json, source, holds);
              } else {
                return from_hf(json, source);
              }
            };
            return std::shared_ptr<const Network>(std::make_shared<NetworkType>(config()));
          }};
}

}  // namespace mstrain
