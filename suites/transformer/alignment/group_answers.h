// Answers that the policy writes to the prompts of a step, as it is before the step, and the batches that they make.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/data/tokenizer.h"
#include "core/nn/lora.h"
#include "core/train/callback.h"
#include "core/train/task.h"
#include "suites/transformer/alignment/answer_log_probs.h"
#include "suites/transformer/alignment/answers.h"
#include "suites/transformer/alignment/ppo_config.h"
#include "suites/transformer/alignment/rewards.h"
#include "suites/transformer/alignment/written_rows.h"
#include "suites/transformer/text/decoder.h"

namespace mstrain {

struct GroupAnswersOptions {
  GrpoConfig grpo;
  std::optional<PpoConfig> ppo;  // tokens have advantages of their own, by the policy's values
  AutoOr<std::string> end;       // objective.end
  int64_t rows = 0;              // of a step
  int64_t seq = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  std::optional<LoraConfig> lora;
  std::string reference;     // as of preference_task()
  int64_t log_interval = 1;  // of these steps alone is measured what costs a pass over the answers
  AnswerGroups groups;       // as the task has them
  bool exact = false;        // objective.*.generation.exact, likewise
  Execution execution = Execution::kGraph;
};

// Writes before every step that learns from new answers; what is written is a function of the weights, the seed and the step. Every rank
// writes all of it, and learns from its part; where it is exact, those along `tensor` do together. What several steps learn from is part of checkpoints between them.
class GroupAnswers final : public Callback {
 public:
  GroupAnswers(std::shared_ptr<const CausalModel> model, std::shared_ptr<const AnswerCorpus> corpus,
               const GroupAnswersOptions& options);

  void on_start(Trainer& trainer) override;
  // Of a run that begins or goes on before its first step as well.
  bool wants(int64_t, Moment moment) override { return moment == Moment::kStep; }
  void on_state(Trainer& trainer, Moment) override { write(trainer); }
  std::string name() const override { return keeps() ? "answers" : ""; }
  Json state() const override;
  void restore(const Json& state) override;

  std::unique_ptr<BatchStream> stream(const BatchPart& part, int64_t first) const;

  // What the model with these weights, whole, earns by what it writes to some prompts, each token the likeliest. Every rank writes all of it, or, as
  // for steps, those along `tensor` do together.
  Earned earned(const Params& params, std::span<const AnswerSample> prompts);

 private:
  struct Group;
  // Whether log-probabilities are.
  bool keeps() const { return options_.grpo.passes > 1 || options_.ppo; }
  void prepare(const TensorParts& parts);
  void write(Trainer& trainer);
  std::vector<Group> write_groups(const Params& params, int64_t first_prompt, int64_t prompts,
                                  uint64_t seed);
  // Whether the step that is next has a row of metrics.
  bool is_measured(const Trainer& trainer) const;
  // Finds what steps learn from besides tokens, unless it is known. Notes entropy, divergence from the reference, and how much is clipped, of the step that is next.
  void measure(Trainer& trainer, const Params& params);
  // How far the step's log-probabilities are from those that tokens were drawn by.
  void note_mismatch(Trainer& trainer, std::span<const float> log_probs) const;
  // A first step of which nothing is learned is an error: none after it would be better.
  void say_all_are_cut(int64_t step) const;
  // Notes what the newest answers earn, rule by rule, and how unlike.
  void note_rewards(Trainer& trainer);
  // What writing found, which no later step finds again: checkpoints hold it until a row has it.
  void note(Trainer& trainer, const std::string& name, double value);
  void add_row(const Group& group, size_t answer, int64_t row);
  const AnswerText& prompt(int64_t index) const;

  std::shared_ptr<const AnswerCorpus> corpus_;
  GroupAnswersOptions options_;
  Rewards rewards_;
  const TensorParts* parts_ = nullptr;  // of the trainer's programs
  bool says_even_ = true;               // where steps teach nothing, once
  std::vector<double> earned_;  // by the answers of the newest round of writing, and of each rule
  std::vector<std::vector<double>> earned_by_rule_;
  std::shared_ptr<const CausalModel> model_;
  std::shared_ptr<const SharedModel> shared_;  // null: every rank writes by itself
  std::optional<Decoder> decoder_;
  std::optional<AnswerLogProbs> log_probs_;
  std::shared_ptr<WrittenRows> rows_;
  const Trainer* trainer_ = nullptr;     // of the run
  std::map<std::string, double> noted_;  // the last of each name
  std::vector<float> drawn_;  // log-probabilities [rows, seq] that the newest rows were drawn by
};

}  // namespace mstrain
