// The loop: batches in, steps done, callbacks told.
//
//   Trainer trainer(task, data, config, step_program);
//   trainer.start(seed, micro);                      // or trainer.restore(files, checkpoint folder, micro)
//   trainer.run({&log, &evaluation, &checkpoints}, stop);
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/train/callback.h"
#include "core/train/checkpoint.h"
#include "core/train/step.h"
#include "core/train/step_guard.h"

namespace mstrain {

class Trainer {
 public:
  // All arguments must outlive the trainer.
  Trainer(const TrainTask& task, const TrainData& data, const TrainConfig& config,
          const StepProgram& program);

  // Initial weights, from the beginning of the data.
  void start(uint64_t seed, int64_t micro);
  // The state of a checkpoint, bit for bit. Throws IoError; Error where it comes from other data, unless they may be others:
  // then training goes on where it was in them, or, anew, at their beginning.
  enum class Data { kSame, kOthers, kAnew };
  void restore(FileSystem& files, const std::string& folder, int64_t micro,
               Data data = Data::kSame);

  // Trains up to schedule.total_steps, until a callback ends the run or until `stop`; returns whether it finished. Throws
  // Error when a loss is not finite and not to be skipped, naming the step, before any callback sees that state.
  bool run(const std::vector<Callback*>& callbacks, const std::atomic<bool>& stop);

  int64_t step() const { return progress_.step; }
  const ProgressState& progress() const { return progress_; }
  const TrainState& state() const { return state_; }
  // All weights, trained and frozen, whole. Every rank calls it.
  Params params() const { return program_.whole_weights(state_, frozen_); }
  // The same, in parts along `tensor`.
  Params params_in_parts() const { return program_.held_weights(state_, frozen_); }
  const TensorParts& parts() const { return program_.parts(); }
  // What this rank has of them, as a LossProgram with shards_of_weights() takes them.
  Params held_params() const { return joined(state_.params, frozen_); }
  // The whole run, as it is now. Its tensors are those of state(); outside state is prepared, and has to be waited for. Every rank calls it.
  CheckpointContents checkpoint() const;
  OutsideState* outside() const { return data_.outside.get(); }  // null: there is none

  // What callbacks may do.
  enum class End { kFinished, kInterrupted };
  // No further step begins; the run ends as after its last step, or as one that was asked to stop. The first call counts. After the
  // last step kInterrupted says that what was due then is cut short.
  void end(End how, const std::string& reason);
  bool is_interrupted() const { return end_ == End::kInterrupted; }  // by a callback
  // Why a callback ended the run; empty: none did.
  const std::string& end_reason() const { return end_reason_; }
  // The rate of later steps is the schedule's times `factor`, but not brought below `lowest` by that.
  void scale_learning_rate(double factor, double lowest);
  double next_learning_rate() const { return learning_rate(progress_.step); }
  // Weights, optimizer state and outside state of a checkpoint of this run; step and position in the data stay. Throws IoError.
  void load_state_of(FileSystem& files, const std::string& folder);
  // The next row of metrics.jsonl has `value` as well, and so has TensorBoard. The last value of a name counts.
  void note(const std::string& name, double value) { notes_[name] = value; }
  const std::map<std::string, double>& notes() const { return notes_; }  // that no row has yet
  std::map<std::string, double> take_notes() { return std::exchange(notes_, {}); }
  // Tells all callbacks.
  void evaluated(const EvaluationRow& row);
  void saved(int64_t step, const std::string& folder);

 private:
  struct Pending;
  // Rank 0's word on whether callbacks are to see the state, on whether the run ends, and why.
  struct Agreed {
    bool wanted = false;
    bool stopped = false;
  };
  Agreed agree(bool wanted, const std::atomic<bool>& stop);
  void open_batches();
  void advance(Pending& pending);
  void tell(Pending& pending);
  bool wanted(Moment moment);
  void visit(Moment moment);
  double learning_rate(int64_t step) const;
  // What this rank has of parameter `i`, or of what the optimizer keeps for it, among `values`. `type`: of what other ranks have.
  // `in_parts`: where it may be in parts along `data`.
  StoredTensor stored(size_t i, std::string name, const Params& values, const TensorType& type,
                      bool in_parts) const;
  std::vector<StoredTensor> stored_model() const;
  std::vector<StoredTensor> stored_optimizer() const;

  const TrainTask& task_;
  const TrainData& data_;
  const TrainConfig& config_;
  const StepProgram& program_;
  LearningRate lr_;
  double lr_factor_ = 1;
  double lr_lowest_ = 0;
  StepGuard guard_;
  std::vector<Callback*> callbacks_;  // of the run under way
  std::optional<End> end_;
  std::string end_reason_;
  std::map<std::string, double> notes_;
  ProgressState progress_;
  TrainState state_;
  Params frozen_;  // as steps take them
  Tensors
      batch_;  // of the last step on a device that runs late: while it is held, the next one is copied elsewhere
  std::unique_ptr<BatchStream> batches_;
};

}  // namespace mstrain
