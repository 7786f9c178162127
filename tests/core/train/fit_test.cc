// Whole runs with callbacks: what they do to the result, and that a run which goes on knows what it had seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>

#include "core/base/files_fault.h"
#include "core/base/log.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Fit : public testing::Test {
 protected:
  Fit() {
    previous_ = set_log_sink([this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      if (level == LogLevel::kWarning) {
        warnings_.emplace_back(message);
      }
    });
  }
  ~Fit() override { set_log_sink(previous_); }

  static void expect_same_run(const std::string& a, const std::string& b, int64_t step) {
    for (const char* file :
         {"model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST.json"}) {
      EXPECT_EQ(checkpoint_file(a, step, file), checkpoint_file(b, step, file)) << file;
    }
    EXPECT_EQ(timeless_metrics(a), timeless_metrics(b));
  }

  // Every rule at once; the loss soon gets no better at this rate.
  TrainConfig eventful(const std::string& directory) const {
    TrainConfig config = small_config(folder_ / directory);
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
    TrainData data = small_data(std::move(hook));
    class Poisoned final : public BatchStream {
     public:
      explicit Poisoned(std::unique_ptr<BatchStream> inner) : inner_(std::move(inner)) {}
      Tensors next() override {
        Tensors batch = inner_->next();
        if (inner_->samples() == 7 * 8 || inner_->samples() == 8 * 8) {
          batch[1] = batch[1] * full({}, std::numeric_limits<double>::quiet_NaN());
        }
        return batch;
      }
      int64_t samples() const override { return inner_->samples(); }

     private:
      std::unique_ptr<BatchStream> inner_;
    };
    data.training = [inner = data.training](uint64_t seed, int64_t rows, int64_t first) {
      return std::make_unique<Poisoned>(inner(seed, rows, first));
    };
    return data;
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
  LogSink previous_;
};

TEST_F(Fit, TheBestWeightsComeBackBitForBit) {
  TrainConfig config = eventful("run");
  const SessionResult result = run_small(config);
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_LT(result.step, 60);
  EXPECT_THAT(result.end_reason,
              HasSubstr("early stopping: 4 evaluations without a better eval_loss"));
  const auto rows = rows_with(config.run.directory(), kEvalLoss);
  int64_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const Json& row : rows) {
    if (row[kEvalLoss].get<double>() < least) {
      least = row[kEvalLoss].get<double>();
      best = row["step"];
    }
  }
  EXPECT_EQ(result.step, best + 4 * 3);
  EXPECT_EQ(rows.back()["step"], result.step);
  EXPECT_EQ(result.restored, best);
  ASSERT_TRUE(result.best.has_value());
  EXPECT_EQ(result.best->step, best);
  EXPECT_EQ(result.best->value, least);
  for (const char* file : {kModelFile, kOptimizerFile}) {
    EXPECT_EQ(checkpoint_file(config.run.directory(), result.step, file),
              checkpoint_file(config.run.directory(), best, file));
  }
  const Json run =
      parse_json(real_files().read(join_path(config.run.directory(), kRunFile)), "run");
  EXPECT_EQ(run["best"]["checkpoint"], "checkpoints/" + checkpoint_name(best));
  EXPECT_EQ(run["status"], "finished");

  // It is over, unless one has more patience.
  const auto fails_if_used = [](int64_t) { FAIL() << "a finished run took data"; };
  const SessionResult again = run_small(config, real_files(), small_data(fails_if_used));
  EXPECT_EQ(again.outcome, Outcome::kWasFinished);
  EXPECT_THAT(again.end_reason, HasSubstr("eval.early_stopping.patience"));
  config.eval.early_stopping->patience = 1000;
  EXPECT_EQ(run_small(config).step, 60);
}

TEST_F(Fit, LessPatienceEndsARunThatGoesOnWithItsBestWeights) {
  TrainConfig config = eventful("run");
  config.eval.early_stopping->patience = 1000;
  std::atomic<bool> stop = false;
  const auto stop_there = [&](int64_t sample) { stop = sample >= 46 * 8; };
  const int64_t step =
      run_small(config, real_files(), small_data(stop_there), small_task(), &stop).step;
  config.eval.early_stopping->patience = 2;
  const SessionResult result = run_small(config);
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_EQ(result.step, step);
  ASSERT_TRUE(result.restored.has_value());
  EXPECT_EQ(checkpoint_file(config.run.directory(), step, kModelFile),
            checkpoint_file(config.run.directory(), *result.restored, kModelFile));
  EXPECT_EQ(run_small(config).outcome, Outcome::kWasFinished);
}

TEST_F(Fit, ARunThatGoesOnKnowsWhatItsCallbacksHadSeen) {
  const TrainConfig straight = eventful("straight");
  const SessionResult whole = run_small(straight, real_files(), poisoned());
  EXPECT_GT(rows_with(straight.run.directory(), "skipped_steps").back()["skipped_steps"], 2);
  for (const int64_t stop_at : {2, 6, 7, 8, 11, 14, 17, 20}) {
    SCOPED_TRACE(stop_at);
    const TrainConfig config = eventful("stopped_" + std::to_string(stop_at));
    std::atomic<bool> stop = false;
    const auto stop_there = [&](int64_t sample) { stop = sample >= stop_at * 8; };
    run_small(config, real_files(), poisoned(stop_there), small_task(), &stop);
    const SessionResult rest = run_small(config, real_files(), poisoned());
    EXPECT_EQ(rest.step, whole.step);
    expect_same_run(straight.run.directory(), config.run.directory(), whole.step);
  }
}

// Interrupted where an evaluation is due, gone on, and dead at any moment from then on.
TEST_F(Fit, AnEvaluationThatACheckpointHasNotSeenIsMadeAgain) {
  const TrainConfig straight = eventful("straight");
  const int64_t last = run_small(straight).step;
  FaultyFiles files(real_files());
  const TrainConfig config = eventful("dying");
  for (int64_t n = 0; n < 150; n += 6) {
    SCOPED_TRACE(n);
    real_files().remove_all(config.run.directory());
    std::atomic<bool> stop = false;
    const auto stop_there = [&](int64_t sample) { stop = sample >= 11 * 8; };
    EXPECT_EQ(run_small(config, real_files(), small_data(stop_there), small_task(), &stop).step,
              12);
    files.reset({.power_off_operation = n});
    EXPECT_THROW(run_small(config, files), IoError);
    EXPECT_EQ(run_small(config).step, last);
    expect_same_run(straight.run.directory(), config.run.directory(), last);
  }
}

TEST_F(Fit, ASkippedStepChangesNothingButTheCount) {
  const auto run = [&](const char* name, const auto& change) {
    SCOPED_TRACE(name);
    TrainConfig config = small_config(folder_ / name);
    config.optimizer.not_finite = NotFinite::kSkip;
    config.checkpoint.interval = 1;
    config.checkpoint.keep = 100;
    config.log.interval = 1;
    change(config);
    const std::string directory = config.run.directory();
    EXPECT_EQ(run_small(config, real_files(), poisoned()).step, 20);
    for (const char* file : {kModelFile, kOptimizerFile}) {
      const std::string before = checkpoint_file(directory, 6, file);
      EXPECT_EQ(checkpoint_file(directory, 7, file), before);
      EXPECT_EQ(checkpoint_file(directory, 8, file), before);
      EXPECT_NE(checkpoint_file(directory, 9, file), before);
    }
    const auto rows = rows_with(directory, "loss");
    EXPECT_TRUE(rows[6]["loss"].is_null());
    EXPECT_EQ(rows[5]["skipped_steps"], 0);
    EXPECT_EQ(rows[19]["skipped_steps"], 2);
  };
  run("graph", [](TrainConfig&) {});
  run("eager", [](TrainConfig& config) { config.run.execution = Execution::kEager; });
  run("O0", [](TrainConfig& config) { config.fusion.level = FusionLevel::kO0; });
  run("micro-batches", [](TrainConfig& config) { config.batch.micro = 2; });
  run("momentum", [](TrainConfig& config) {
    config.optimizer.type = OptimizerType::kSgd;
    config.optimizer.momentum = 0.9;
  });
  EXPECT_THAT(warnings_, testing::Contains(HasSubstr("step 7: the loss is nan")));
}

// Where nothing is skipped, a run that might skip is the run that might not.
TEST_F(Fit, ReadinessToSkipChangesNothing) {
  const TrainConfig plain = small_config(folder_ / "plain");
  TrainConfig ready = small_config(folder_ / "ready");
  ready.optimizer.not_finite = NotFinite::kSkip;
  run_small(plain);
  run_small(ready);
  for (const char* file : {kModelFile, kOptimizerFile}) {
    EXPECT_EQ(checkpoint_file(plain.run.directory(), 20, file),
              checkpoint_file(ready.run.directory(), 20, file));
  }
}

TEST_F(Fit, ValidationOrNoneTheWeightsAreTheSame) {
  const TrainConfig with = small_config(folder_ / "with");
  const TrainConfig without = small_config(folder_ / "without");
  TrainData no_validation = small_data();
  no_validation.evaluation = nullptr;
  no_validation.evaluation_batches = nullptr;
  run_small(with);
  run_small(without, real_files(), no_validation);
  for (const char* file : {kModelFile, kOptimizerFile}) {
    EXPECT_EQ(checkpoint_file(with.run.directory(), 20, file),
              checkpoint_file(without.run.directory(), 20, file));
  }
}

TEST_F(Fit, TheBestCheckpointStaysBesidesTheNewest) {
  TrainConfig config = small_config(folder_ / "run");
  config.checkpoint.best = kEvalLoss;
  config.checkpoint.keep = 1;
  config.eval.interval = 3;
  // Evaluations give 4, 1, 2, 1, 1, 0.5, 3: of steps 3, 6, 9, 12, 15, 18 and 20.
  class Constant final : public BatchStream {
   public:
    explicit Constant(double value, int64_t rows) : value_(value), rows_(rows) {}
    Tensors next() override { return {full({rows_, 4}, 0), full({rows_, 1}, value_)}; }
    int64_t samples() const override { return 0; }

   private:
    double value_;
    int64_t rows_;
  };
  TrainTask task = small_task();
  task.evaluate = [](const Params&, std::span<const Tensor> batch) {
    return LossSum{sum(batch[1]), full({}, static_cast<double>(batch[1].elements()))};
  };
  const std::vector<double> values{4, 1, 2, 1, 1, 0.5, 3};
  size_t evaluations = 0;
  TrainData data = small_data();
  data.evaluation = [&](int64_t rows) {
    return std::make_unique<Constant>(values.at(evaluations++), rows);
  };
  std::atomic<bool> stop = false;
  const auto stop_there = [&](int64_t sample) { stop = sample >= 15 * 8; };
  data.training = small_data(stop_there).training;
  const SessionResult first = run_small(config, real_files(), data, task, &stop);
  EXPECT_EQ(first.step, 16);
  EXPECT_EQ(first.best->step, 6);
  EXPECT_THAT(checkpoints(config), ElementsAre(6, 16));
  data.training = small_data().training;
  const SessionResult result = run_small(config, real_files(), data, task);
  EXPECT_EQ(result.best->step, 18);
  EXPECT_EQ(result.best->value, 0.5);
  EXPECT_THAT(checkpoints(config), ElementsAre(18, 20));
}

TEST_F(Fit, MonitorsOfWhatIsNotMeasuredAreRefusedAtTheStart) {
  const auto message = [&](const TrainConfig& config, const TrainData& data) -> std::string {
    try {
      run_small(config, real_files(), data);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  TrainConfig config = small_config(folder_ / "run");
  config.eval.early_stopping = EarlyStoppingConfig{.monitor = "eval_accuracy"};
  EXPECT_EQ(
      message(config, small_data()),
      "eval.early_stopping.monitor: this run measures no eval_accuracy; it measures eval_loss");
  config = small_config(folder_ / "run");
  config.schedule.reduce_on_plateau.emplace();
  TrainData data = small_data();
  data.evaluation = nullptr;
  EXPECT_THAT(message(config, data),
              HasSubstr("schedule.reduce_on_plateau.monitor: eval_loss needs evaluations"));
  EXPECT_FALSE(real_files().exists(folder_ / "run/metrics.jsonl"));
}

// Tells what it was told.
class Diary final : public Callback {
 public:
  void on_start(Trainer& trainer) override { add("start", trainer.step()); }
  void on_step(Trainer&, const StepMetrics& metrics) override { add("step", metrics.step); }
  void on_evaluation(Trainer&, const EvaluationRow& row) override { add("evaluation", row.step); }
  void on_save(Trainer&, int64_t step, const std::string& folder) override {
    EXPECT_TRUE(real_files().exists(join_path(folder, "MANIFEST.json")));
    add("save", step);
  }
  void on_stop(Trainer& trainer) override { add("stop", trainer.step()); }
  std::string name() const override { return "diary"; }
  Json state() const override { return steps; }
  void restore(const Json& state) override { steps = state.get<int64_t>(); }

  std::vector<std::string> lines;
  int64_t steps = 0;

 private:
  void add(const char* what, int64_t step) {
    lines.push_back(fmt::format("{} {}", what, step));
    steps += what == std::string_view("step") ? 1 : 0;
  }
};

TEST_F(Fit, ACallbackOfAUsersIsToldOfEverythingAndRemembers) {
  TrainConfig config = small_config(folder_ / "run");
  config.schedule.total_steps = 4;
  config.schedule.warmup_steps = 0;
  config.checkpoint.interval = 2;
  config.checkpoint.async = false;
  config.eval.interval = 3;
  const std::atomic<bool> never = false;
  const auto run = [&](Diary& diary) {
    train(real_files(), config, resolved(config), small_task(), small_data(),
          [](const RunPlan&, int64_t) { FAIL(); }, never, {&diary});
  };
  Diary diary;
  run(diary);
  EXPECT_THAT(diary.lines,
              ElementsAre("start 0", "step 1", "step 2", "save 2", "step 3", "evaluation 3",
                          "step 4", "evaluation 4", "save 4", "stop 4"));
  config.schedule.total_steps = 6;
  Diary later;
  run(later);
  EXPECT_EQ(later.lines.front(), "start 4");
  EXPECT_EQ(later.steps, 6);
}

TEST_F(Fit, SamplesComeAtTheirOwnInterval) {
  TrainConfig config = small_config(folder_ / "run");
  config.eval.prompts = {"a"};
  config.eval.sample_interval = 6;
  TrainData data = small_data();
  data.sample = [](const Params&, const std::string& prompt, int64_t tokens) {
    return fmt::format("{}{}", prompt, tokens);
  };
  const SessionResult result = run_small(config, real_files(), data);
  std::vector<int64_t> steps;
  for (const Json& row : rows_with(config.run.directory(), "samples")) {
    steps.push_back(row["step"]);
    EXPECT_EQ(row["samples"][0]["text"], "a200");
    EXPECT_EQ(row.contains(kEvalLoss), row["step"] == 12 || row["step"] == 20);
  }
  EXPECT_THAT(steps, ElementsAre(6, 12, 18, 20));
  ASSERT_EQ(result.samples.size(), 1U);
  EXPECT_EQ(result.samples[0].text, "a200");
}

// Holds up the writing of one checkpoint until it is told to go on.
class SlowDisk final : public FileSystem {
 public:
  SlowDisk(FileSystem& inner, std::string slow) : inner_(inner), slow_(std::move(slow)) {}
  void go_on() {
    const std::lock_guard lock(mutex_);
    may_go_on_ = true;
    changed_.notify_all();
  }
  bool gave_up() const { return gave_up_; }
  bool was_slow() const { return was_slow_; }

  std::unique_ptr<WritableFile> open(const std::string& path, WriteMode mode) override {
    if (path.find(slow_) != std::string::npos && path.ends_with(kModelFile)) {
      std::unique_lock lock(mutex_);
      was_slow_ = true;
      gave_up_ = !changed_.wait_for(lock, std::chrono::seconds(20), [&] { return may_go_on_; });
    }
    return inner_.open(path, mode);
  }
  std::string read(const std::string& p, uint64_t n) override { return inner_.read(p, n); }
  std::unique_ptr<MappedFile> map(const std::string& p) override { return inner_.map(p); }
  bool exists(const std::string& p) override { return inner_.exists(p); }
  bool is_directory(const std::string& p) override { return inner_.is_directory(p); }
  std::vector<std::string> list(const std::string& p) override { return inner_.list(p); }
  uint64_t file_size(const std::string& p) override { return inner_.file_size(p); }
  uint64_t free_space(const std::string& p) override { return inner_.free_space(p); }
  void create_directories(const std::string& p) override { inner_.create_directories(p); }
  void rename(const std::string& a, const std::string& b) override { inner_.rename(a, b); }
  bool exchange(const std::string& a, const std::string& b) override {
    return inner_.exchange(a, b);
  }
  void truncate(const std::string& p, uint64_t n) override { inner_.truncate(p, n); }
  void remove(const std::string& p) override { inner_.remove(p); }
  void remove_all(const std::string& p) override { inner_.remove_all(p); }
  void sync_directory(const std::string& p) override { inner_.sync_directory(p); }
  std::unique_ptr<FileLock> try_lock(const std::string& p) override { return inner_.try_lock(p); }

 private:
  FileSystem& inner_;
  std::string slow_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool may_go_on_ = false;
  std::atomic<bool> gave_up_ = false;
  std::atomic<bool> was_slow_ = false;
};

TEST_F(Fit, TrainingGoesOnWhileACheckpointIsWritten) {
  TrainConfig straight = small_config(folder_ / "straight");
  straight.checkpoint.async = false;
  run_small(straight);
  TrainConfig config = small_config(folder_ / "run");
  config.checkpoint.async = true;
  SlowDisk disk(real_files(), checkpoint_name(5));
  // The write of step 5 goes on when step 9 has begun, whose updates it must not see.
  const auto hook = [&](int64_t sample) {
    if (sample >= 8 * 8) {
      disk.go_on();
    }
  };
  config.checkpoint.keep = 4;
  straight.checkpoint.keep = 4;
  EXPECT_EQ(run_small(config, disk, small_data(hook)).outcome, Outcome::kFinished);
  EXPECT_TRUE(disk.was_slow());
  EXPECT_FALSE(disk.gave_up());
  for (const int64_t step : {10, 15, 20}) {
    EXPECT_EQ(checkpoint_file(straight.run.directory(), step, "MANIFEST.json"),
              checkpoint_file(config.run.directory(), step, "MANIFEST.json"));
  }
  // Of step 5 the run that waited kept nothing; it is computed again.
  TrainConfig short_run = small_config(folder_ / "short");
  short_run.schedule = straight.schedule;
  std::atomic<bool> stop = false;
  const auto stop_there = [&](int64_t sample) { stop = sample >= 4 * 8; };
  run_small(short_run, real_files(), small_data(stop_there), small_task(), &stop);
  EXPECT_EQ(checkpoint_file(short_run.run.directory(), 5, "MANIFEST.json"),
            checkpoint_file(config.run.directory(), 5, "MANIFEST.json"));
}

TEST_F(Fit, AFailedWriteEndsTheRunSoonAndLeavesTheCheckpointBefore) {
  class Broken final : public Callback {
   public:
    explicit Broken(FaultyFiles& files) : files_(files) {}
    void on_save(Trainer&, int64_t step, const std::string&) override {
      if (step == 5) {
        files_.reset({.enospc_after_bytes = 900});
      }
    }
    void on_step(Trainer&, const StepMetrics& metrics) override { last = metrics.step; }
    int64_t last = 0;

   private:
    FaultyFiles& files_;
  };
  TrainConfig config = small_config(folder_ / "run");
  config.checkpoint.async = true;
  config.schedule.total_steps = 100000;
  config.log.interval = 1000000;
  config.eval.interval = 1000000;
  FaultyFiles files(real_files());
  Broken broken(files);
  const std::atomic<bool> never = false;
  std::string message;
  try {
    train(files, config, resolved(config), small_task(), small_data(),
          [](const RunPlan&, int64_t) { FAIL(); }, never, {&broken});
  } catch (const IoError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("No space left on device"));
  EXPECT_LE(broken.last, 20);  // the write of step 10 at the latest when the next one is due
  const auto newest =
      newest_checkpoint(real_files(), join_path(config.run.directory(), "checkpoints"), false);
  ASSERT_TRUE(newest.has_value());
  EXPECT_THAT(*newest, testing::EndsWith(checkpoint_name(5)));
}

}  // namespace
}  // namespace mstrain
