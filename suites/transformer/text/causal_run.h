// A run of a language model that learns to predict each next token of a corpus.
#pragma once

#include "suites/transformer/text/causal_network.h"
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
  virtual HeadType head() const = 0;
  // What the configuration's objective asks for.
  virtual HeadType needed_head() const { return HeadType::kNextToken; }

  void check(const YamlNode& tree) const override;
  // Throws ConfigError where the model with this head does not do what the configuration asks of one with the head `asked`.
  void check_head(HeadType asked) const;
};

// Beside its Config a model's folder declares also
//   double about_parameters(const Config&);   how many, nearly, for any numbers that a configuration may hold
// `Base` derives from CausalRun.
template <class Config, class Model, class Base = CausalRun>
class CausalRunOf final : public RunOf<Config, CausalNetworkOf<Config, Model>, Base> {
 public:
  void take_network(const Network& network) override {
    const HeadType asked = head();
    RunOf<Config, CausalNetworkOf<Config, Model>, Base>::take_network(network);
    CausalRun::check_head(asked);
  }
  LeastSize least_size() const override {
    return this->least_size_with(about_parameters(this->model), 2);
  }

 private:
  AutoOr<int64_t>& vocab_size() override { return this->model.vocab_size; }
  std::shared_ptr<const CausalModel> causal_model() const override {
    return std::make_shared<Model>(this->model, this->train.memory.recompute);
  }
  int64_t longest_sequence() const override { return this->model.longest_sequence(); }
  HeadType head() const override { return head_of(this->model.head); }
  void fill_in() override { this->model.head = this->model.head.value_or(this->needed_head()); }
  void check(const YamlNode& tree) const override {
    Base::check(tree);
    check_config(this->model, tree);
  }
};

}  // namespace mstrain
