#include "core/train/time_limit.h"

#include "core/base/error.h"

namespace mstrain {

TimeLimit::TimeLimit(double hours, Clock::time_point begin, Clock::time_point (*now)())
    : hours_(hours), begin_(begin), now_(now) {}

void TimeLimit::on_step(Trainer& trainer, const StepMetrics&) {
  if (std::chrono::duration<double>(now_() - begin_).count() >= 3600 * hours_) {
    trainer.end(Trainer::End::kInterrupted,
                fmt::format("run.time_limit_hours: {} hours are over", hours_));
  }
}

}  // namespace mstrain
