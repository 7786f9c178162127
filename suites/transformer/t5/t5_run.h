// The configuration of a run that trains, evaluates or uses a T5.
#pragma once

#include "core/data/pairs.h"
#include "suites/transformer/t5/data_config.h"
#include "suites/transformer/t5/network.h"
#include "suites/transformer/t5/task.h"
#include "suites/transformer/text/text_run.h"

namespace mstrain::t5 {

class T5Run final : public RunOf<T5Config, T5Network, TextRun> {
 public:
  SampleConfig sampling;

  void settle(int64_t ids, const YamlNode& tree) override;
  std::optional<int64_t> known_ids(FileSystem& files, const YamlNode& tree) const override;
  void open_data(FileSystem& files, const YamlNode& tree,
                 const std::optional<std::string>& folder) override;
  void take_data_of(const ModelRun& opened) override;
  int64_t data_ids() const override { return vocabulary_->size(); }
  void find_oddities_of(int64_t ids, const YamlNode& tree, Findings& findings) const override;
  TrainTask task() const override;
  TrainData samples(const Json& source = Json::object()) const override;
  LeastSize least_size() const override;
  std::vector<Overrides> smaller_samples() const override;
  Overrides with_layers(int64_t layers) const override;

 private:
  AutoOr<int64_t>& vocab_size() override { return model.vocab_size; }
  void declare_data(ConfigFields& fields) override;
  void check(const YamlNode& tree) const override;

  bool is_pairs() const { return sampling.task == DataTask::kPairs; }
  SpanCorruption corruption() const { return {sampling.span_corruption, data.seq_length}; }
  BatchShape batch_shape() const;
  RowTokens row_tokens() const;
  std::shared_ptr<const PairRows> rows_of(std::shared_ptr<const Pairs> pairs) const;
  void add_corrupted(TrainData& out) const;
  void add_pairs(TrainData& out) const;
  // Held-out samples under their name.
  static void add_held_out(const std::string& name, std::shared_ptr<const Seq2SeqSource> source,
                           const RowTokens& tokens, int64_t samples, TrainData& out);

  DataSection section_{sampling, data};
  std::shared_ptr<const Seq2SeqVocabulary> vocabulary_;
  std::shared_ptr<const PairCorpus> pairs_;
};

// model.type t5.
ModelEntry entry();

}  // namespace mstrain::t5
