#include "suites/transformer/t5/network.h"

#include "core/base/error.h"
#include "core/data/windows.h"
#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "suites/transformer/t5/answer.h"
#include "suites/transformer/t5/model.h"

namespace mstrain::t5 {
namespace {

// bool; null where it is not given.
Tensor mask_of(const NamedTensors& inputs, const char* name) {
  const Tensor mask = given(inputs, name);
  return mask.defined() ? not_equal(mask, 0) : mask;
}

// The labels one position later, after a start token; ignored ones are padding.
Tensor shifted(const Tensor& labels_bt, const T5Config& config) {
  const int64_t b = labels_bt.dim(0);
  const int64_t t = labels_bt.dim(1);
  const Tensor parts[] = {
      full({b, 1}, static_cast<double>(*config.decoder_start_token.value), Dtype::kI32),
      slice(labels_bt, 1, 0, t - 1)};
  const Tensor tokens_bt = concat(parts, 1);
  return where(equal(tokens_bt, kIgnoreTarget),
               full({}, static_cast<double>(*config.pad_token.value), Dtype::kI32), tokens_bt);
}

}  // namespace

std::vector<ParamSpec> T5Network::specs() const { return T5(config_).specs(); }

std::vector<std::pair<std::string, std::string>> T5Network::identity() const {
  return weight_keys(write_config(chosen(config_)), [](const std::string& key) {
    return key == "model.extra_ids" || key.ends_with("_token");
  });
}

std::vector<InputSpec> T5Network::inputs() const {
  const std::vector<InputSpec::Dim> source{{"batch"}, {"source"}};
  const std::vector<InputSpec::Dim> target{{"batch"}, {"target"}};
  const int64_t vocab = *config_.vocab_size.value;
  return {{"input_ids", source, {{0, vocab}}, true},
          {"attention_mask", source, {{0, 2}}},
          {"decoder_input_ids", target, {{0, vocab}}},
          {"decoder_attention_mask", target, {{0, 2}}},
          {"labels", target, {{0, vocab, kIgnoreTarget}}}};
}

Computed T5Network::compute(const Params& params, const NamedTensors& inputs) const {
  const T5 model(config_);
  const Tensor labels_bt = given(inputs, "labels");
  Tensor decoder_input = given(inputs, "decoder_input_ids");
  if (!decoder_input.defined()) {
    check(labels_bt.defined(), "neither decoder_input_ids nor labels are given: one is needed");
    decoder_input = shifted(labels_bt, config_);
  }
  const Text source{inputs.at("input_ids"), mask_of(inputs, "attention_mask")};
  const Text target{decoder_input, mask_of(inputs, "decoder_attention_mask")};
  Computed out{
      model.logits(params, model.decode(params, target, model.encode(params, source), source)),
      Tensor()};
  if (labels_bt.defined()) {
    out.loss = cross_entropy(out.logits, labels_bt);
  }
  return out;
}

TokensBeside T5Network::tokens_beside(std::shared_ptr<const Tokenizer> tokenizer) const {
  return Seq2SeqVocabulary(std::move(tokenizer), config_.tokens()).beside();
}

std::unique_ptr<TextWriter> T5Network::writer(std::shared_ptr<const Tokenizer> tokenizer,
                                              Execution execution) const {
  return std::make_unique<Answerer>(T5(config_), std::move(tokenizer), execution);
}

}  // namespace mstrain::t5
