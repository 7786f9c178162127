#include "suites/transformer/gpt/network.h"

#include <limits>

#include "core/base/error.h"
#include "core/nn/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "suites/transformer/gpt/generate.h"
#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"

namespace mstrain::gpt {
namespace {

constexpr int32_t kIgnored = -100;

// What is added to the scores [b, 1, t, t] in place of the causal mask.
Tensor attention_bias(const Tensor& mask_bt) {
  const int64_t b = mask_bt.dim(0);
  const int64_t t = mask_bt.dim(1);
  const Tensor causal = less_equal(iota({t, t}, 1), iota({t, t}, 0));
  const Tensor seen = logical_and(reshape(not_equal(mask_bt, 0), {b, 1, 1, t}), causal);
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  return where(seen, full({}, 0), kHidden);
}

// The labels, one position ahead: [b, t].
Tensor shifted(const Tensor& labels_bt) {
  const int64_t b = labels_bt.dim(0);
  const int64_t t = labels_bt.dim(1);
  const Tensor parts[] = {slice(labels_bt, 1, 1, t), full({b, 1}, kIgnored, Dtype::kI32)};
  return concat(parts, 1);
}

Tensor given(const NamedTensors& inputs, const char* name) {
  const auto found = inputs.find(name);
  return found == inputs.end() ? Tensor() : found->second;
}

}  // namespace

GptNetwork::GptNetwork(const GptConfig& config) : config_(config) { check_gpt_config(config); }

std::vector<ParamSpec> GptNetwork::specs() const { return Gpt(config_).specs(); }

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

std::vector<InputSpec> GptNetwork::inputs() const {
  const std::vector<InputSpec::Dim> dims{{"batch"}, {"time", config_.max_position_embeddings}};
  const int64_t vocab = *config_.vocab_size.value;
  return {{"input_ids", dims, {{0, vocab}}, true},
          {"attention_mask", dims, {{0, 2}}},
          {"position_ids", dims, {{0, config_.max_position_embeddings}}},
          {"labels", dims, {{0, vocab, kIgnored}}}};
}

Computed GptNetwork::compute(const Params& params, const NamedTensors& inputs) const {
  const Gpt model(config_);
  GptView view{.positions_bt = given(inputs, "position_ids")};
  if (const Tensor mask_bt = given(inputs, "attention_mask"); mask_bt.defined()) {
    const Tensor bias = attention_bias(mask_bt);
    view.attend = [this, bias](int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
      return attention(q, k, v, {.scale = config_.attention_scale(layer), .bias = bias});
    };
  }
  Computed out{model(params, inputs.at("input_ids"), view), Tensor()};
  if (const Tensor labels_bt = given(inputs, "labels"); labels_bt.defined()) {
    out.loss = cross_entropy(out.logits, shifted(labels_bt));
  }
  return out;
}

std::unique_ptr<TextWriter> GptNetwork::writer(std::shared_ptr<const Tokenizer> tokenizer,
                                               Execution execution) const {
  return std::make_unique<Generator>(Gpt(config_), std::move(tokenizer), execution);
}

}  // namespace mstrain::gpt
