// The loss over held-out data, every `eval.interval` steps and at the end.
#pragma once

#include <atomic>
#include <optional>

#include "core/train/metrics_log.h"
#include "core/train/progress.h"

namespace mstrain {

struct EvaluationResult {
  double loss = 0;  // mean over all predictions
  int64_t predictions = 0;
  double seconds = 0;
};

// Over `eval.batches`. None when `stop` was set meanwhile. `progress` may be null. Throws Error where nothing is held out.
std::optional<EvaluationResult> evaluate(const LossProgram& program, const Params& params,
                                         const TrainData& data, const TrainConfig& config,
                                         int64_t rows, const std::atomic<bool>& stop,
                                         Progress* progress = nullptr);

class Evaluation final : public Callback {
 public:
  // All arguments must outlive it. `rows`: samples computed at once. Without held-out data `program` may be null.
  Evaluation(const LossProgram* program, const TrainData& data, const TrainConfig& config,
             int64_t rows, MetricsLog& log, Progress& progress, const std::atomic<bool>& stop);

  bool wants(int64_t step, Moment moment) override;
  void on_state(Trainer& trainer, Moment moment) override;

  const std::optional<EvaluationRow>& last() const { return last_; }

 private:
  const LossProgram* program_;
  const TrainData& data_;
  const TrainConfig& config_;
  int64_t rows_;
  MetricsLog& log_;
  Progress& progress_;
  const std::atomic<bool>& stop_;
  std::optional<EvaluationRow> last_;
};

}  // namespace mstrain
