// A T5 as the house sees it.
#pragma once

#include "suites/transformer/hf/network_of.h"
#include "suites/transformer/t5/hf_names.h"

namespace mstrain::t5 {

class T5Network final : public NetworkOf<T5Config> {
 public:
  using NetworkOf::NetworkOf;

  std::vector<ParamSpec> specs() const override;
  int64_t num_layers() const override { return config_.num_layers + config_.decoder_layers(); }
  std::optional<int64_t> ids() const override { return config_.vocab_size.value; }
  std::vector<std::pair<std::string, std::string>> identity() const override;
  std::vector<std::string> copies() const override { return hf_copies(config_); }
  // input_ids[b, s], attention_mask[b, s] (1: seen, 0: padding), decoder_input_ids[b, t], decoder_attention_mask[b, t],
  // labels[b, t] (-100: not counted), of which decoder_input_ids or labels are there: the decoder reads decoder_input_ids,
  // or else the labels, one position later, after decoder_start_token. The loss is the mean cross-entropy of the labels. Of
  // a query that sees no key attention is zero.
  std::vector<InputSpec> inputs() const override;
  Computed compute(const Params& params, const NamedTensors& inputs) const override;
  // The ending token is behind every source.
  TokensBeside tokens_beside(std::shared_ptr<const Tokenizer> tokenizer) const override;
  // Answers to texts: what the decoder writes after its start token.
  std::unique_ptr<TextWriter> writer(std::shared_ptr<const Tokenizer> tokenizer,
                                     Execution execution) const override;
};

}  // namespace mstrain::t5
