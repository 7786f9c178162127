// Saves checkpoints of a run: every `checkpoint.interval` steps, at the end, and when the run is asked to stop.
#pragma once

#include "core/train/metrics_log.h"

namespace mstrain {

class Saver final : public Callback {
 public:
  // `last_saved`: the step of the checkpoint that the run goes on from, else 0.
  Saver(const RunDirectory& directory, const TrainConfig& config, MetricsLog& log,
        int64_t last_saved);

  bool wants(int64_t step, Moment moment) override;
  // Metrics become durable first: a checkpoint never is ahead of them.
  void on_state(Trainer& trainer, Moment moment) override;

  int64_t last_saved() const { return last_saved_; }

 private:
  const RunDirectory& directory_;
  const TrainConfig& config_;
  MetricsLog& log_;
  int64_t last_saved_;
};

}  // namespace mstrain
