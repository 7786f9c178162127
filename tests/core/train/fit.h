// What tests of whole runs with callbacks share.
#pragma once

#include <gtest/gtest.h>

#include <mutex>

#include "core/base/log.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"
#include "tests/core/train/small_task.h"

namespace mstrain {

class Fit : public testing::Test {
 protected:
  Fit() {
    previous_ = set_log_sink([this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      (level == LogLevel::kWarning ? warnings_ : infos_).emplace_back(message);
    });
  }
  ~Fit() override { set_log_sink(previous_); }

  // Every rule at once; with this rate and seed the loss soon gets no better.
  TrainConfig eventful(const std::string& directory) const {
    TrainConfig config = small_config(folder_ / directory);
    config.run.seed = 2;
    config.optimizer.lr = 0.3;
    config.optimizer.not_finite = NotFinite::kSkip;
    config.optimizer.skip_spikes = SkipSpikesConfig{.deviations = 1, .window = 3};
    config.schedule.type = ScheduleType::kConstant;
    config.schedule.warmup_steps = 0;
    config.schedule.total_steps = 60;
    config.schedule.reduce_on_plateau = ReduceOnPlateauConfig{.factor = 0.5, .patience = 1};
    config.checkpoint.best = kEvalLoss;
    config.checkpoint.keep = 2;
    config.eval.interval = 3;
    config.eval.early_stopping = EarlyStoppingConfig{.patience = 4, .restore_best = true};
    return config;
  }

  // Steps 7 and 8 have batches without a number in them.
  static TrainData poisoned(IndexedBatches::Hook hook = nullptr) {
    return poisoned_data({7, 8}, std::move(hook));
  }

  static std::vector<Json> rows_with(const std::string& directory, const char* key) {
    std::vector<Json> out;
    for (Json& row : read_metrics(real_files(), join_path(directory, kMetricsFile))) {
      if (row.contains(key)) {
        out.push_back(std::move(row));
      }
    }
    return out;
  }

  std::vector<int64_t> checkpoints(const TrainConfig& config) const {
    return list_checkpoints(real_files(), join_path(config.run.directory(), "checkpoints"));
  }

  TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::vector<std::string> infos_;
  LogSink previous_;
};

}  // namespace mstrain
