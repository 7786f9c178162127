// Writes down what a run measures: metrics.jsonl, and the same for TensorBoard.
#pragma once

#include <optional>
#include <vector>

#include "core/io/events.h"
#include "core/train/metrics_file.h"
#include "core/train/run_directory.h"
#include "core/train/trainer.h"

namespace mstrain {

struct Continuation {
  std::string prompt;
  std::string text;
};

struct EvaluationRow {
  int64_t step = 0;
  double loss = 0;
  double seconds = 0;
  std::vector<Continuation> samples;
};

// A row for the first step, every `log.interval` steps and the last: loss, lr and grad_norm of that step; step_seconds
// and tokens_per_second are means since the row before.
class MetricsLog final : public Callback {
 public:
  // Goes on after `last_step`: later rows are cut off.
  MetricsLog(const RunDirectory& directory, const TrainConfig& config, int64_t tokens_per_step,
             int64_t last_step);

  void on_step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationRow& row);
  // Returns when all rows are durable.
  void sync();

  // Whether `step` has an evaluation row.
  bool evaluated(int64_t step) const { return last_evaluation_ >= step; }
  // Whether on_step writes a row for `step`.
  bool is_logged(int64_t step) const;

 private:
  const TrainConfig& config_;
  int64_t tokens_per_step_;
  int64_t last_evaluation_ = -1;
  MetricsFile file_;
  EventsWriter events_;
  double seconds_ = 0;  // since the last row
  int64_t steps_ = 0;
};

// Seconds since 1970.
double wall_clock();

}  // namespace mstrain
