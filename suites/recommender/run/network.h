// A recommender's dense part as the house sees it. M is a model's folder: Config, kHasWeights, logits().
#pragma once

#include <algorithm>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "suites/recommender/models/parts.h"
#include "suites/recommender/run/recommender_run.h"
#include "suites/run/network.h"

namespace mstrain::recommender {

inline constexpr const char* kModelTypePrefix = "mstrain_";  // of model_type in config.json

template <class Config>
class RecommenderNetwork : public Network {
 public:
  using Logits = Tensor (*)(const Config&, const Params&, const Features&);

  RecommenderNetwork(const Config& config, bool has_weights, Logits logits)
      : config_(config), has_weights_(has_weights), logits_(logits) {}

  const Config& config() const { return config_; }

  std::vector<ParamSpec> specs() const override {
    return declare_params([this](const Params& p) {
      const int64_t numeric = config_.num_numeric.value_or(0);
      Features x{.vectors_bfd = zeros(
                     {Dtype::kF32, {1, config_.num_fields.value_or(1), config_.embedding_dim}})};
      if (numeric > 0) {
        x.numeric_bn = zeros({Dtype::kF32, {1, numeric}});
      }
      if (has_weights_) {
        x.weights_b = zeros({Dtype::kF32, {1}});
      }
      logits_(config_, p, x);
    });
  }
  int64_t num_layers() const override {
    if constexpr (requires { config_.top; }) {
      return std::ssize(config_.top.hidden);
    } else {
      return std::ssize(config_.hidden);
    }
  }
  std::optional<int64_t> ids() const override {
    return config_.num_fields.is_word() || config_.num_numeric.is_word()
               ? std::nullopt
               : std::optional(shape_id(*config_.num_fields.value, *config_.num_numeric.value));
  }
  Shape stored_shape(const std::string&, const Shape& shape) const override { return shape; }
  StoredMeaning meaning(const std::string& stored) const override {
    const std::vector<ParamSpec> all = specs();
    const bool is_known = std::any_of(all.begin(), all.end(),
                                      [&](const ParamSpec& spec) { return spec.name == stored; });
    return is_known ? StoredMeaning{StoredMeaning::Kind::kParameter, stored} : StoredMeaning{};
  }
  bool redraws(const std::string&) const override { return false; }
  OrderedJson description(const Json&) const override {
    OrderedJson model = to_json(section());
    model.erase("init");  // which weights it began with is no part of the model
    OrderedJson json;
    json["model_type"] = kModelTypePrefix + model.at("type").template get<std::string>();
    json["model"] = model;
    return json;
  }
  YamlNode section() const override { return write_config(config_); }
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return weight_keys(section());
  }

  // numeric[b, numbers], vectors[b, fields, embedding_dim] as tables would give them, weights[b] their single weights added up; labels[b],
  // 0 or 1. Logits are log-odds [b].
  std::vector<InputSpec> inputs() const override {
    std::vector<InputSpec> specs{{"vectors",
                                  {{"batch"},
                                   {"fields", {}, config_.num_fields.value_or(1)},
                                   {"dim", {}, config_.embedding_dim}},
                                  {},
                                  true},
                                 {"labels", {{"batch"}}, {{0, 2}}}};
    if (config_.num_numeric.value_or(0) > 0) {
      specs.push_back(
          {"numeric", {{"batch"}, {"numbers", {}, *config_.num_numeric.value}}, {}, true});
    }
    if (has_weights_) {
      specs.push_back({"weights", {{"batch"}}, {}, true});
    }
    return specs;
  }
  Computed compute(const Params& params, const NamedTensors& inputs) const override {
    const Features x{.numeric_bn = given(inputs, "numeric"),
                     .vectors_bfd = inputs.at("vectors"),
                     .weights_b = given(inputs, "weights")};
    Computed out{logits_(config_, params, x), Tensor()};
    if (const Tensor labels_b = given(inputs, "labels"); labels_b.defined()) {
      out.loss = sum(log_losses(out.logits, cast(labels_b, Dtype::kF32))) /
                 static_cast<double>(labels_b.dim(0));
    }
    return out;
  }

 private:
  Config config_;
  bool has_weights_;
  Logits logits_;
};

}  // namespace mstrain::recommender
