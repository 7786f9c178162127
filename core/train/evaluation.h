// The loss and other measures over held-out data, every `eval.interval` steps and at the end, and what the model writes.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "core/train/loss_program.h"
#include "core/train/metrics_log.h"
#include "core/train/progress.h"

namespace mstrain {

struct EvaluationResult {
  std::vector<Metric> metrics;      // over all held-out data, then of each set with a name
  std::vector<Continuation> texts;  // some that rewards are paid for
  double seconds = 0;
};

// "eval loss 1.2345  perplexity 3.437"; then "web: eval loss 1.2  perplexity …" for each set with a name
std::string describe(std::span<const Metric> metrics);
// What is to be said of a loss that is no finite number; empty where all are.
std::string not_finite(std::span<const Metric> metrics);

// What an evaluation of `task` on `data` gives, by name; empty where nothing is held out.
std::vector<std::string> metrics_of(const TrainTask& task, const TrainData& data);

// Over `eval.batches` of each set. None when `stop` was set meanwhile. `progress` may be null. Throws Error where nothing is held out.
// `params` as the program takes them; `whole` gives them whole, where the model's own texts are rewarded. Ranks along `data` take the batches in turns; every rank calls it, and all are told the same.
std::optional<EvaluationResult> evaluate(const LossProgram& program, const Params& params,
                                         const TrainTask& task, const TrainData& data,
                                         const TrainConfig& config, int64_t rows,
                                         const std::atomic<bool>& stop,
                                         const std::function<Params()>& whole,
                                         Progress* progress = nullptr);

class Evaluation final : public Callback {
 public:
  // All arguments must outlive it. `rows`: samples computed at once. Without held-out data `program` may be null.
  Evaluation(const LossProgram* program, const TrainTask& task, const TrainData& data,
             const TrainConfig& config, int64_t rows, MetricsLog& log, Progress& progress,
             const std::atomic<bool>& stop);

  bool wants(int64_t step, Moment moment) override;
  void on_state(Trainer& trainer, Moment moment) override;

  // Whether what is held out is to be evaluated now.
  bool evaluates(int64_t step, Moment moment) const;
  const std::optional<EvaluationRow>& last() const { return last_; }
  const std::vector<Continuation>& samples() const { return samples_; }  // the last ones

 private:
  bool writes(int64_t step, Moment moment) const;

  const LossProgram* program_;
  const TrainTask& task_;
  const TrainData& data_;
  const TrainConfig& config_;
  int64_t rows_;
  MetricsLog& log_;
  Progress& progress_;
  const std::atomic<bool>& stop_;
  std::optional<EvaluationRow> last_;
  std::vector<Continuation> samples_;
};

}  // namespace mstrain
