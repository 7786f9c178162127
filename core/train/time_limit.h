// Ends a run in time to save it: run.time_limit_hours.
#pragma once

#include <chrono>

#include "core/train/trainer.h"

namespace mstrain {

class TimeLimit final : public Callback {
 public:
  using Clock = std::chrono::steady_clock;
  // `begin`: when the time began to run. `now`: a clock of a test's.
  TimeLimit(double hours, Clock::time_point begin, Clock::time_point (*now)() = &Clock::now);

  void on_step(Trainer& trainer, const StepMetrics& metrics) override;

 private:
  double hours_;
  Clock::time_point begin_;
  Clock::time_point (*now_)();
};

}  // namespace mstrain
