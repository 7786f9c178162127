// The reference point of KTO: how far the policy has gone from the model that the run begins with, on answers to other prompts. It is a mean over
// the whole batch of a step, which micro-batches and ranks do not see, and so it is found before the step.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/nn/lora.h"
#include "core/train/callback.h"
#include "core/train/sections.h"
#include "suites/transformer/alignment/answer_rows.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain {

struct ReferencePointOptions {
  int64_t rows = 0;  // of a step
  bool shuffle = true;
  std::string reference;  // as of preference_task()
  std::optional<LoraConfig> lora;
  Execution execution = Execution::kGraph;
};

// max(0, mean of log p - log p of the reference) over the prompts of a step's batch, each with the answer of the row before it, and the first
// with that of the last (Ethayarajh et al. 2024, 3.2). A function of the weights and the batch: the same for any number of ranks.
class ReferencePoint final : public Callback {
 public:
  // Rows of kind kJudged.
  ReferencePoint(std::shared_ptr<const CausalModel> model, std::shared_ptr<const AnswerRows> rows,
                 const ReferencePointOptions& options);

  bool wants(int64_t, Moment moment) override { return moment == Moment::kStep; }
  void on_state(Trainer& trainer, Moment) override { find(trainer); }

  // Batches of training, with the point of their step.
  std::unique_ptr<BatchStream> stream(uint64_t seed, const BatchPart& part, int64_t first) const;

 private:
  void find(Trainer& trainer);

  std::shared_ptr<const AnswerRows> rows_;
  ReferencePointOptions options_;
  std::function<Tensor(const Params&, const Tensor&, const Tensor&)> log_ratios_;
  std::shared_ptr<double> point_;
};

// Held-out rows are judged from 0, the point of the model that the run begins with: what they come to depends on no batch.
EvaluationSet judged_from_zero(EvaluationSet set);

}  // namespace mstrain
