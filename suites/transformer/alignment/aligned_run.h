// A run of a language model that may have an objective of its own: answers to write, or to prefer. Without the section
// `objective` it learns each next token of a corpus.
#pragma once

#include "suites/transformer/alignment/answer_rows.h"
#include "suites/transformer/alignment/answers.h"
#include "suites/transformer/alignment/group_answers.h"
#include "suites/transformer/alignment/length_order.h"
#include "suites/transformer/alignment/reference_point.h"
#include "suites/transformer/text/causal_run.h"

namespace mstrain {

class AlignedRun : public CausalRun {
 public:
  std::optional<ObjectiveConfig> objective;

  void open_data(FileSystem& files, const YamlNode& tree,
                 const std::optional<std::string>& folder) override;
  void take_data_of(const ModelRun& opened) override;
  TrainTask task() const override;
  TrainData samples(const Json& source = Json::object()) const override;
  void settle(int64_t ids, const YamlNode& tree) override;
  std::optional<int32_t> taught_end() const override;
  std::vector<Callback*> callbacks() const override;
  std::map<std::string, std::string> models_besides() const override;
  Overrides profile_changes() const override;
  std::vector<Overrides> smaller_samples() const override;

 protected:
  void declare_data(ConfigFields& fields) override;
  HeadType needed_head() const override;
  void check(const YamlNode& tree) const override;

 private:
  RowKind row_kind() const;
  // Of a batch: data.seq_length, or what the longest sample needs where each has a row of its own.
  int64_t row_length() const;
  // Whether answers are written as objective.*.generation.exact says.
  bool writes_exactly() const;
  AnswerGroups groups() const;
  bool draws() const;
  // Of data whose samples have rows of their own; null where none is computed as shorter than another.
  std::shared_ptr<const LengthOrder> by_length() const;
  // Of memory, to write them and to ask what is said of them.
  int64_t bytes_of_writing() const;
  // The weights that the run began with, under the names that preference_task() gives them.
  std::function<Params()> reference() const;

  FileSystem* files_ = nullptr;      // of open_data()
  std::optional<std::string> from_;  // model.init.from
  std::string type_key_;             // where objective.type stands
  std::shared_ptr<const AnswerCorpus> answers_;
  std::optional<AnswerLengths> longest_;  // of opened data
  AnswerGroups pairs_;                    // how preferences share prompts
  std::shared_ptr<const LengthOrder> lengths_;
  std::shared_ptr<Callback> counts_;
  mutable std::shared_ptr<GroupAnswers> written_;  // of samples(), where answers are rewarded
  mutable std::shared_ptr<ReferencePoint> point_;  // and where they are judged one by one
  mutable std::optional<int64_t> bytes_of_writing_;
};

}  // namespace mstrain
