// The configuration of a run that trains, evaluates or uses a Llama.
#pragma once

#include "suites/transformer/llama/config.h"
#include "suites/transformer/text/causal_run.h"

namespace mstrain::llama {

class LlamaRun final : public CausalRun {
 public:
  LlamaConfig model;

  std::shared_ptr<const Network> network() const override;
  void take_network(const Network& network) override;
  LeastSize least_size() const override;

 private:
  AutoOr<int64_t>& vocab_size() override { return model.vocab_size; }
  std::shared_ptr<const CausalModel> causal_model() const override;
  int64_t longest_sequence() const override { return model.longest_sequence(); }
  void declare_model(ConfigFields& fields) override { fields("model", model, "the network"); }
  void check(const YamlNode& tree) const override;
};

// model.type llama.
ModelEntry entry();

}  // namespace mstrain::llama
