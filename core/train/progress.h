// Where a run stands, for who watches it: one live line on a terminal, plain lines elsewhere, on standard error.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "core/base/log.h"
#include "core/train/trainer.h"

namespace mstrain {

// While it lives, messages of log.h appear above the live line.
class Progress final : public Callback {
 public:
  // Plain lines come every `log.interval` steps, but not more often than every two seconds. `may_be_live`: else it leaves a terminal
  // alone.
  Progress(const TrainConfig& config, Units in_a_step, bool may_be_live = true);
  ~Progress() override;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void on_step(Trainer& trainer, const StepMetrics& metrics) override;
  // Something else is under way: "evaluating 12/80".
  void show(const std::string& activity);

 private:
  void clear();
  void print(const std::string& line);

  const TrainConfig& config_;
  Units in_a_step_;
  bool live_;
  std::mutex mutex_;  // of the line: messages may come from any thread
  bool visible_ = false;
  double step_seconds_ = 0;  // moving mean
  int64_t steps_ = 0;
  std::chrono::steady_clock::time_point last_{};
  LogSink previous_;
};

}  // namespace mstrain
