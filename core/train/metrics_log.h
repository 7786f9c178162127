// Writes down what a run measures: metrics.jsonl, and the same for TensorBoard.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/io/events.h"
#include "core/train/metrics_file.h"
#include "core/train/run_directory.h"
#include "core/train/trainer.h"

namespace mstrain {

// A row for the first step, every `log.interval` steps and the last, wherever the run finishes or fails: loss, lr and grad_norm of that step; step_seconds
// and tokens_per_second (images_per_second and so on, by the task's unit) are means since the row before.
class MetricsLog final : public Callback {
 public:
  // Goes on after what is `kept`: later rows are cut off.
  MetricsLog(const RunDirectory& directory, const TrainConfig& config, Units in_a_step,
             const MetricsKept& kept);
  // What a run keeps that goes on from a checkpoint of `step`. An evaluation that came after the checkpoint of its own
  // step is made again: the state of other callbacks has not seen it.
  static MetricsKept kept(int64_t step, const Json& callbacks);

  void on_step(Trainer& trainer, const StepMetrics& metrics) override;
  bool wants(int64_t step, Moment moment) override;
  void on_state(Trainer& trainer, Moment moment) override;
  // The run ended by an error after the last step that it was told of. What cannot be written is logged.
  void failed(Trainer& trainer) noexcept;
  // What a run that finished noted after the last row has one of its own.
  void on_stop(Trainer& trainer) override;
  void evaluation(const EvaluationRow& row);
  // TensorBoard's; nothing of it is in metrics.jsonl.
  EventsWriter& events() { return events_; }
  // The files whose rows are durable when they are synced.
  std::vector<std::string> paths() const { return {metrics_path_, events_path_}; }

  // Whether `step` has an evaluation row, or one with samples.
  bool evaluated(int64_t step) const { return last_evaluation_ >= step; }
  bool sampled(int64_t step) const { return last_samples_ >= step; }
  // Whether on_step writes a row for `step`.
  bool is_logged(int64_t step) const;

  std::string name() const override { return kName; }
  Json state() const override;

 private:
  static constexpr const char* kName = "log";
  std::string tag_of(const Metric& metric);
  void write(Trainer& trainer, const StepMetrics& metrics);
  // Moves what was noted into `row`; false where there is nothing.
  bool take_notes(Trainer& trainer, int64_t step, double now, OrderedJson& row);

  const TrainConfig& config_;
  Units in_a_step_;
  int64_t last_evaluation_ = 0;
  int64_t last_samples_ = 0;
  std::map<std::string, int64_t> first_predictions_;  // of the run, by key
  std::string metrics_path_;
  std::string events_path_;
  MetricsFile file_;
  EventsWriter events_;
  StepMetrics last_;    // that it was told of
  double seconds_ = 0;  // since the last row
  int64_t steps_ = 0;
  bool goes_on_ = false;  // the run is interrupted
  double last_row_time_ = 0;
  double last_worked_ = 0;  // processor_seconds() then
};

// Seconds since 1970.
double wall_clock();

}  // namespace mstrain
