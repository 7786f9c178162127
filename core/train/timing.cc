#include "core/train/timing.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/train/trainer.h"

namespace mstrain {
namespace {

constexpr int64_t kWarmUp = 3;

class Stopwatch final : public Callback {
 public:
  void on_step(Trainer&, const StepMetrics& metrics) override {
    if (metrics.step > kWarmUp) {
      seconds.push_back(metrics.seconds);
    }
  }
  std::vector<double> seconds;
};

}  // namespace

TrainConfig with_warm_up(TrainConfig config) {
  config.schedule.total_steps += kWarmUp;
  return config;
}

StepTimes time_steps(const TrainTask& task, const TrainData& data, const TrainConfig& config,
                     const PlannedRun& run, const std::atomic<bool>& stop) {
  Trainer trainer(task, data, config, *run.step);
  trainer.start(static_cast<uint64_t>(config.run.seed), run.plan.micro);
  Stopwatch watch;
  trainer.run({&watch}, stop);
  std::vector<double>& times = watch.seconds;
  check(!times.empty(), "interrupted before a step was timed");
  std::sort(times.begin(), times.end());
  return {static_cast<int64_t>(times.size()), times[times.size() / 2], times.front()};
}

}  // namespace mstrain
