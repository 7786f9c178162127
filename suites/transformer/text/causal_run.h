// A run of a language model that learns to predict each next token of a corpus.
#pragma once

#include "suites/transformer/text/causal_model.h"
#include "suites/transformer/text/text_run.h"

namespace mstrain {

class CausalRun : public TextRun {
 public:
  TrainTask task() const override;
  TrainData samples(const Json& source = Json::object()) const override;

 protected:
  // What is trained; the network must be settled.
  virtual std::shared_ptr<const CausalModel> causal_model() const = 0;
  // By model.max_position_embeddings.
  virtual int64_t longest_sequence() const = 0;

  void check(const YamlNode& tree) const override;
};

}  // namespace mstrain
