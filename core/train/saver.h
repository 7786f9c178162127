// Saves checkpoints of a run: every `checkpoint.interval` steps or `checkpoint.minutes` minutes, where an evaluation was the best one, at the end, and when
// the run is asked to stop. The first of many ranks writes; the others give it their parts of the state, each from a copy of its own
// where checkpoints are written beside training.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "core/train/checkpoint_writer.h"
#include "core/train/metrics_log.h"

namespace mstrain {

class Saver final : public Callback {
 public:
  // `asynchronous`: written beside training, but for the last one. `last_saved`: the step of the checkpoint that the run
  // goes on from, else 0. All arguments must outlive it.
  Saver(const RunDirectory& directory, const TrainConfig& config, MetricsLog& log,
        bool asynchronous, int64_t last_saved);

  void on_start(Trainer& trainer) override;
  // Throws what stopped a write beside training.
  void on_step(Trainer& trainer, const StepMetrics& metrics) override;
  void on_evaluation(Trainer& trainer, const EvaluationRow& row) override;
  bool wants(int64_t step, Moment moment) override;
  // Metrics become durable first: a checkpoint never is ahead of them.
  void on_state(Trainer& trainer, Moment moment) override;
  void on_stop(Trainer& trainer) override { wait(trainer); }

  std::string name() const override { return config_.checkpoint.best ? kName : ""; }
  Json state() const override;
  void restore(const Json& state) override;

  // The checkpoint of `step` is written, and stays besides the newest ones until `owner` names another.
  void keep(const std::string& owner, int64_t step);
  // The checkpoint of this step is written once more: the state is another one.
  void save_again() { saved_as_is_ = false; }
  // The run is about to take the weights of another step, and ends with them: where this one is the best, what it came to is
  // written beside its checkpoint. Every rank calls it.
  void set_best_aside(Trainer& trainer);
  // Returns when no checkpoint is being written. Every rank calls it.
  void wait(Trainer& trainer);

  FileSystem& files() const { return directory_.files(); }
  std::string folder_of(int64_t step) const;

  struct Best {
    std::string metric;
    double value = 0;
    int64_t step = 0;
    std::string checkpoint;  // its folder's name
  };
  // Of checkpoint.best, so far.
  std::optional<Best> best() const;

 private:
  static constexpr const char* kName = "checkpoint";
  void tell(Trainer& trainer);
  // Writes what it is given into `folder`, and removes what is no longer kept. It may run beside training.
  CheckpointWriter::Write writing(Trainer& trainer, const std::string& folder) const;
  bool is_due(int64_t step) const;

  const RunDirectory& directory_;
  const TrainConfig& config_;
  MetricsLog& log_;
  bool asynchronous_;
  int64_t last_saved_;
  bool saved_as_is_ = true;
  std::map<std::string, int64_t> kept_;  // by owner
  std::optional<Monitor> monitor_;
  std::optional<double> best_;
  int64_t best_step_ = 0;
  int64_t best_predictions_ = 0;  // over how many it is a mean; 0: not known
  bool is_aside_ = false;         // the checkpoint of best_step_ has other weights
  int64_t writing_ = 0;           // step
  std::chrono::steady_clock::time_point last_time_ = std::chrono::steady_clock::now();
  std::unique_ptr<Communicator> ranks_;  // of its own: a thread beside training uses it
  CheckpointWriter writer_;
};

}  // namespace mstrain
