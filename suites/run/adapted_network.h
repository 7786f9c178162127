// A network whose linear layers have low-rank adapters (core/nn/lora.h), as the house sees it: its parameters are those of
// the network itself and the adapters'. For training the former are frozen.
#pragma once

#include "core/nn/lora.h"
#include "core/train/task.h"
#include "suites/run/network.h"

namespace mstrain {

class AdaptedNetwork final : public Network {
 public:
  // Targets may be other_names() of the base, or ends of these.
  AdaptedNetwork(std::shared_ptr<const Network> base, const LoraConfig& lora);

  const Network& base() const { return *base_; }
  // With the base's own names.
  const LoraConfig& lora() const { return lora_; }

  // The linear layers that have adapters, in the order of the model. Throws where the base's specs() does.
  std::vector<LinearLayer> layers() const;
  // Throws Error, naming the nearest, where a target is the end of no linear layer's name, or one of modules_to_save that of
  // no module with weights.
  void check_targets() const;
  // The targets as the ends of names that mean these layers, sorted.
  std::vector<std::string> target_names() const;

  std::vector<ParamSpec> specs() const override;
  int64_t num_layers() const override { return base_->num_layers(); }
  std::optional<int64_t> ids() const override { return base_->ids(); }
  Shape stored_shape(const std::string& name, const Shape& shape) const override;
  // In the file of an adapter names begin with base_model.model.
  StoredMeaning meaning(const std::string& stored) const override;
  std::vector<std::string> copies() const override { return base_->copies(); }
  // A model's own files hold no adapters. What is frozen is not drawn.
  bool redraws(const std::string& name) const override {
    return is_lora(name) || (lora_.trains(name) && base_->redraws(name));
  }
  OrderedJson description(const Json& source) const override { return base_->description(source); }
  YamlNode section() const override;
  std::vector<std::pair<std::string, std::string>> identity() const override;
  bool scores_texts() const override { return base_->scores_texts(); }
  std::vector<InputSpec> inputs() const override { return base_->inputs(); }
  Computed compute(const Params& params, const NamedTensors& inputs) const override;
  TokensBeside tokens_beside(std::shared_ptr<const Tokenizer> tokenizer) const override {
    return base_->tokens_beside(std::move(tokenizer));
  }
  std::unique_ptr<TextWriter> writer(std::shared_ptr<const Tokenizer> tokenizer,
                                     Execution execution) const override;

 private:
  std::shared_ptr<const Network> base_;
  LoraConfig lora_;
};

// The file of an adapter's weights, and the names that a parameter of `network` has there: PEFT takes a weight that is used once
// more for another one.
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";
std::vector<std::string> adapter_names(const Network& network, const std::string& parameter);

// "h.0.attn.c_attn" of "h.0.attn.c_attn.weight".
std::string module_of(const std::string& tensor);

// Modules with weights, each of which files call so, and those of copies.
std::vector<std::string> modules_of(const Network& network);

// The parameters that are trained; and those that are not, in `dtype`. Where model.lora.base names a code, those that go into
// it are f32, and no others have a matrix form: what reads or draws specs in that code makes what training keeps.
std::vector<ParamSpec> trained_specs(const AdaptedNetwork& network);
std::vector<ParamSpec> frozen_specs(const AdaptedNetwork& network, Dtype dtype);

// As init_params(), but with a `code` each of those with a matrix form goes into it as it is drawn.
Params drawn_params(std::span<const ParamSpec> specs, uint64_t seed,
                    std::optional<WeightCode> code);

// `task`, of network.base(), as training of the adapters: what they leave is frozen, and drawn with `seed` unless the caller
// says where it is. What is frozen and not in codes is kept in `dtype`.
TrainTask adapted(TrainTask task, const AdaptedNetwork& network, Dtype dtype, uint64_t seed);

}  // namespace mstrain
