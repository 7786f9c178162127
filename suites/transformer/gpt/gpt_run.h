// The configuration of a run that trains, evaluates or uses a GPT.
#pragma once

#include "suites/transformer/gpt/config.h"
#include "suites/transformer/text/text_run.h"

namespace mstrain::gpt {

class GptRun final : public TextRun {
 public:
  GptConfig model;

  std::shared_ptr<const Network> network() const override;
  void take_network(const Network& network) override;
  TrainTask task() const override;
  TrainData samples(const Json& source = Json::object()) const override;
  LeastSize least_size() const override;

 private:
  AutoOr<int64_t>& vocab_size() override { return model.vocab_size; }
  void declare_model(ConfigFields& fields) override { fields("model", model, "the network"); }
  void check(const YamlNode& tree) const override;
};

// model.type gpt.
ModelEntry entry();

}  // namespace mstrain::gpt
