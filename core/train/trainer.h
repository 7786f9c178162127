// The loop: batches in, steps done, callbacks told.
//
//   Trainer trainer(task, data, config, step_program);
//   trainer.start(seed, micro);                      // or trainer.restore(checkpoint folder)
//   trainer.run({&log, &evaluation, &checkpoints}, stop);
#pragma once

#include <atomic>
#include <initializer_list>
#include <memory>
#include <string>

#include "core/train/checkpoint.h"
#include "core/train/step.h"

namespace mstrain {

struct StepMetrics {
  int64_t step = 0;  // from 1
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double seconds = 0;  // of the step, without evaluation and saving
  int64_t begin = 0;   // nanoseconds of the steady clock
};

enum class Moment {
  kStep,         // after a step
  kFinished,     // after the last one
  kInterrupted,  // the run is asked to stop
};

class Trainer;

class Callback {
 public:
  virtual ~Callback() = default;
  // Every step, in order, one step late: the next step is already under way.
  virtual void on_step(const StepMetrics&) {}
  // Whether on_state is to be called now. All callbacks are asked at every moment.
  virtual bool wants(int64_t /*step*/, Moment) { return false; }
  // The state after `trainer.step()` updates, when the metrics of all of them have been told. May take its time: it is
  // not counted as training.
  virtual void on_state(Trainer&, Moment) {}
};

class Trainer {
 public:
  // All arguments must outlive the trainer.
  Trainer(const TrainTask& task, const TrainData& data, const TrainConfig& config,
          const StepProgram& program);

  // Initial weights, from the beginning of the data.
  void start(uint64_t seed, int64_t micro);
  // The state of a checkpoint, bit for bit. Throws IoError; Error where it comes from other data.
  void restore(FileSystem& files, const std::string& folder);

  // Trains up to schedule.total_steps or until `stop`; returns whether the end was reached. Throws Error when a loss is
  // not finite, naming the step, before any callback sees that state.
  bool run(std::initializer_list<Callback*> callbacks, const std::atomic<bool>& stop);

  int64_t step() const { return progress_.step; }
  const ProgressState& progress() const { return progress_; }
  const TrainState& state() const { return state_; }
  LearningRate& learning_rate() { return lr_; }
  CheckpointContents checkpoint() const;

 private:
  using Callbacks = std::initializer_list<Callback*>;
  struct Pending;
  void advance(Pending& pending);
  void tell(Pending& pending, Callbacks callbacks);
  void visit(Callbacks callbacks, Moment moment);
  std::vector<StoredTensor> stored_model() const;
  std::vector<StoredTensor> stored_optimizer() const;

  const TrainTask& task_;
  const TrainData& data_;
  const TrainConfig& config_;
  const StepProgram& program_;
  LearningRate lr_;
  ProgressState progress_;
  TrainState state_;
  std::unique_ptr<BatchStream> batches_;
};

}  // namespace mstrain
