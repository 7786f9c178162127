// What follows a run as it goes: logs, evaluations, checkpoints, rules that end it, and a user's own.
//
//   class Notify final : public Callback {
//     void on_evaluation(Trainer&, const EvaluationRow& row) override { … }
//   };
//   Notify notify;
//   train(files, config, resolved, task, data, refuse, stop, {&notify});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/train/metrics.h"
#include "core/train/task.h"

namespace mstrain {

struct StepMetrics {
  int64_t step = 0;  // from 1
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double seconds = 0;                    // of the step, without evaluation and saving
  int64_t begin = 0;                     // nanoseconds of the steady clock
  std::vector<Metric> metrics;           // where TrainTask::measures_steps
  std::optional<int64_t> skipped_steps;  // so far, where steps may be skipped
  std::optional<double> loss_scale;      // of this step, where it is dynamic
  std::vector<double> layer_norms;       // of the gradient of each parameter, where log.layers asks
};

struct EvaluationRow {
  int64_t step = 0;
  std::vector<Metric> metrics;  // over all held-out data, then of each set; none: samples alone
  double seconds = 0;
  std::vector<Continuation> samples;

  double loss() const;  // over all; NaN where there is none
};

enum class Moment {
  kStep,         // after a step that is not the last one
  kFinished,     // after the last one
  kInterrupted,  // the run is asked to stop
};

class Trainer;

// All calls come from the thread of Trainer::run(), callback by callback in their order. What a callback throws ends the
// run.
class Callback {
 public:
  virtual ~Callback() = default;

  // Before the first step; the callback's state is restored already.
  virtual void on_start(Trainer&) {}
  // Every step, in order, one step late: the next step is already under way.
  virtual void on_step(Trainer&, const StepMetrics&) {}
  // Whether on_state is to be called now. All callbacks are asked at every moment.
  virtual bool wants(int64_t /*step*/, Moment) { return false; }
  // The state after `trainer.step()` updates, when the metrics of all of them have been told. May take its time: it is
  // not counted as training.
  virtual void on_state(Trainer&, Moment) {}
  // Metrics of the state that on_state of all is about to see.
  virtual void on_evaluation(Trainer&, const EvaluationRow&) {}
  // The checkpoint of `step` lies complete in `folder`; told with a later step where it was written beside training.
  virtual void on_save(Trainer&, int64_t /*step*/, const std::string& /*folder*/) {}
  // After the last on_state.
  virtual void on_stop(Trainer&) {}

  // What checkpoints hold of this callback, under its name; a run that goes on restores it. Empty: nothing.
  virtual std::string name() const { return ""; }
  virtual Json state() const { return Json(); }
  // Throws Error where `state` is not what state() gives.
  virtual void restore(const Json& /*state*/) {}
};

}  // namespace mstrain
