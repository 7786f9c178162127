// Whole runs with callbacks: what they do to the result, and that a run which goes on knows what it had seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "core/base/files_fault.h"
#include "core/ops/index.h"
#include "core/train/run_record.h"
#include "tests/core/base/message_of.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Learns a number for each of five ids; a step with an id that does not exist fails inside the plan, when parts of the state
// may have been overwritten.
TrainTask table_task() {
  TrainTask task;
  const auto table = [](const Params& p) { return p.get("table", {5}, normal_init(1)); };
  task.parameters = declare_params([&](const Params& p) { table(p); });
  task.stored_shapes = {Shape{5}};
  task.batch_types = [](int64_t rows) {
    return Types{{Dtype::kI32, {rows}}, {Dtype::kF32, {rows}}};
  };
  task.sums = [table](const Params& p, std::span<const Tensor> batch) {
    const Tensor errors = square(gather(table(p), batch[0]) - batch[1]);
    return TaskSums{{sum(errors), full({}, static_cast<double>(errors.elements()))}, {}};
  };
  return task;
}

// The numbers are those of the ids, except that the batch of step `broken` asks for an id that does not exist.
TrainData table_data(int64_t broken) {
  class Ids final : public BatchStream {
   public:
    Ids(int64_t rows, int64_t first, int64_t broken) : rows_(rows), next_(first), broken_(broken) {}
    Tensors next() override {
      std::vector<int32_t> ids;
      std::vector<float> values;
      for (int64_t row = 0; row < rows_; ++row, ++next_) {
        ids.push_back(next_ / rows_ == broken_ - 1 ? 5 : static_cast<int32_t>(next_ % 5));
        values.push_back(static_cast<float>(next_ % 5));
      }
      return {tensor<int32_t>(ids, {rows_}), tensor<float>(values, {rows_})};
    }
    int64_t samples() const override { return next_; }

   private:
    int64_t rows_, next_, broken_;
  };
  TrainData data = small_data();
  data.training = [broken](uint64_t, const BatchPart& part, int64_t first) {
    return std::make_unique<Ids>(part.rows(), first, broken);
  };
  data.evaluation.front().first = [](const BatchPart& part, int64_t) {
    return std::make_unique<Ids>(part.rows(), 0, -1);
  };
  return data;
}

// Evaluations of a task that give these values, one after the other, whatever the weights are.
class ScriptedLoss {
 public:
  explicit ScriptedLoss(std::vector<double> values) : values_(std::move(values)) {}

  TrainTask task() const {
    TrainTask out = small_task();
    out.sums = [trained = out.sums](const Params& p, std::span<const Tensor> batch) {
      return current_context().training
                 ? trained(p, batch)
                 : TaskSums{{sum(batch[1]), full({}, static_cast<double>(batch[1].elements()))},
                            {}};
    };
    return out;
  }
  // It must outlive them.
  TrainData data(IndexedBatches::Hook hook = nullptr) {
    TrainData out = small_data(std::move(hook));
    out.evaluation.at(0).first = [this](const BatchPart& part, int64_t) {
      return std::make_unique<Constant>(values_.at(evaluations_++), part.rows());
    };
    return out;
  }

 private:
  class Constant final : public BatchStream {
   public:
    Constant(double value, int64_t rows) : value_(value), rows_(rows) {}
    Tensors next() override { return {full({rows_, 4}, 0), full({rows_, 1}, value_)}; }
    int64_t samples() const override { return 0; }

   private:
    double value_;
    int64_t rows_;
  };

  std::vector<double> values_;
  size_t evaluations_ = 0;
};

TEST_F(Fit, AStepThatFailsInTheMiddleCostsNoMoreThanTheStepsSinceTheLastCheckpoint) {
  const TrainTask task = table_task();
  TrainConfig straight = small_config(folder_ / "straight");
  straight.log.interval = 5;
  run_small(straight, real_files(), table_data(-1), task);
  TrainConfig config = straight;
  config.run.output_dir = folder_ / "run";
  EXPECT_THAT(message_of<Error>([&] { run_small(config, real_files(), table_data(13), task); }),
              HasSubstr("gather"));
  EXPECT_EQ(checkpoints(config).back(), 10);
  const Json run =
      parse_json(real_files().read(join_path(config.run.directory(), kRunFile)), "run");
  EXPECT_EQ(run["status"], "failed");
  EXPECT_EQ(rows_with(config.run.directory(), "loss").back()["step"], 12);
  EXPECT_EQ(run_small(config, real_files(), table_data(-1), task).outcome, Outcome::kFinished);
  expect_same_run(config.run.directory(), straight.run.directory(), 20);
}

TEST_F(Fit, ABaselineThatIsNotReachedIsNamed) {
  TrainConfig config = eventful("run");
  config.eval.early_stopping->baseline = -1;
  EXPECT_THAT(
      run_small(config).end_reason,
      HasSubstr(" evaluations without eval_loss better than the baseline, -1; the best is"));
}

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
  EXPECT_EQ(rows_with(config.run.directory(), "loss").back()["step"], result.step);
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

TEST_F(Fit, ARunThatATargetEndedSaysThatTheTargetKeepsIt) {
  TrainConfig config = small_config(folder_ / "run");
  config.eval.early_stopping = EarlyStoppingConfig{.patience = 1000, .target = 1000};
  EXPECT_EQ(run_small(config).step, 4);
  EXPECT_EQ(run_small(config).end_reason,
            "early stopping; change eval.early_stopping.target to go on");
  config.eval.early_stopping->target = -1;
  EXPECT_EQ(run_small(config).step, 20);
}

// Its last checkpoint is there, with the weights of its best step, and run.json is as it was before.
TEST_F(Fit, ARunThatDiedWhereARuleHadEndedItSaysThatItFinished) {
  const TrainConfig config = eventful("run");
  const int64_t step = run_small(config).step;
  const std::string directory = config.run.directory();
  const std::string path = join_path(directory, kRunFile);
  const auto record = [&] { return parse_json(real_files().read(path), "run"); };
  const auto kept = [&] {
    std::vector<std::string> files{real_files().read(join_path(directory, kMetricsFile))};
    for (const char* file : {kModelFile, kOptimizerFile, kStateFile}) {
      files.push_back(checkpoint_file(directory, step, file));
    }
    return files;
  };
  const Json whole = record();
  const std::vector<std::string> before = kept();
  Json died = whole;
  died["status"] = kStatusRunning;
  died.erase("reason");
  died.erase("weights_of_step");
  write_file_atomic(real_files(), path, died.dump());
  EXPECT_EQ(run_small(config).step, step);
  for (const char* key : {"status", "reason", "weights_of_step", "step", "best", kEvalLoss}) {
    EXPECT_EQ(record()[key], whole[key]) << key;
  }
  EXPECT_EQ(kept(), before);
  EXPECT_EQ(run_small(config).outcome, Outcome::kWasFinished);
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
  no_validation.evaluation.clear();
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
  ScriptedLoss loss({4, 1, 2, 1, 1, 0.5, 3});  // of steps 3, 6, 9, 12, 15, 18 and 20
  std::atomic<bool> stop = false;
  const auto stop_there = [&](int64_t sample) { stop = sample >= 15 * 8; };
  const SessionResult first =
      run_small(config, real_files(), loss.data(stop_there), loss.task(), &stop);
  EXPECT_EQ(first.step, 16);
  EXPECT_EQ(first.best->step, 6);
  EXPECT_THAT(checkpoints(config), ElementsAre(6, 16));
  const SessionResult result = run_small(config, real_files(), loss.data(), loss.task());
  EXPECT_EQ(result.best->step, 18);
  EXPECT_EQ(result.best->value, 0.5);
  EXPECT_EQ(result.best->checkpoint, "step-00000018");
  EXPECT_THAT(checkpoints(config), ElementsAre(18, 20));
}

// The last step is the best one, and not by enough to count as an improvement.
TEST_F(Fit, TheBestCheckpointStaysWhereTheRunEndsThereWithOtherWeights) {
  TrainConfig config = small_config(folder_ / "run");
  config.schedule.type = ScheduleType::kConstant;
  config.schedule.total_steps = 9;
  config.checkpoint.best = kEvalLoss;
  config.checkpoint.keep = 1;
  config.eval.interval = 3;
  config.eval.early_stopping =
      EarlyStoppingConfig{.patience = 50, .min_delta = 1, .restore_best = true};
  ScriptedLoss loss({4, 3.75, 3.5, 3.25, 1});
  const auto run = [&] { return run_small(config, real_files(), loss.data(), loss.task()); };
  const SessionResult result = run();
  EXPECT_EQ(result.restored, 3);
  EXPECT_EQ(result.best->step, 9);
  EXPECT_EQ(result.best->value, 3.5);
  EXPECT_THAT(checkpoints(config), ElementsAre(3, 9));
  const std::string directory = config.run.directory();
  const std::string last = checkpoint_file(directory, 9, kModelFile);
  EXPECT_EQ(last, checkpoint_file(directory, 3, kModelFile));
  const Json record = parse_json(real_files().read(join_path(directory, kRunFile)), "run");
  EXPECT_EQ(record["weights_of_step"], 3);
  EXPECT_EQ(record["best"]["checkpoint"], "checkpoints/step-00000009.best");
  TrainConfig straight = config;
  straight.run.output_dir = folder_ / "straight";
  straight.eval.early_stopping.reset();
  ScriptedLoss same({4, 3.75, 3.5});
  run_small(straight, real_files(), same.data(), same.task());
  const auto best = [&](const char* file) {
    return real_files().read(
        join_path(join_path(directory, record["best"]["checkpoint"].get<std::string>()), file));
  };
  for (const char* file : {kModelFile, kOptimizerFile}) {
    EXPECT_EQ(best(file), checkpoint_file(straight.run.directory(), 9, file)) << file;
  }

  // It stays as long as it is the best.
  config.schedule.total_steps = 10;
  EXPECT_EQ(run().best->checkpoint, "step-00000010.best");
  EXPECT_THAT(list_set_aside(real_files(), directory + "/checkpoints"), ElementsAre(10));
  config.schedule.total_steps = 12;
  EXPECT_EQ(run().best->checkpoint, "step-00000012");
  EXPECT_THAT(list_set_aside(real_files(), directory + "/checkpoints"), ElementsAre());
}

TEST_F(Fit, TheBestBeginsAnewWhereOtherPredictionsAreMeasured) {
  TrainConfig config = small_config(folder_ / "run");
  config.schedule.total_steps = 6;
  config.checkpoint.best = kEvalLoss;
  config.eval.interval = 3;
  ScriptedLoss loss({1, 2, 5, 4, 6});
  const auto run = [&] { return run_small(config, real_files(), loss.data(), loss.task()); };
  EXPECT_EQ(run().best->step, 3);
  config.eval.batches = 1;
  config.schedule.total_steps = 15;
  const SessionResult result = run();
  EXPECT_EQ(result.best->step, 12);
  EXPECT_EQ(result.best->value, 4);
  EXPECT_THAT(infos_, testing::Contains(HasSubstr("step 9: eval_loss is a mean over 8 predictions, "
                                                  "and was one over 16: the best checkpoint")));
}

TEST_F(Fit, MonitorsOfWhatIsNotMeasuredAreRefusedAtTheStart) {
  const auto message = [&](const TrainConfig& config, const TrainData& data) {
    return message_of<ConfigError>([&] { run_small(config, real_files(), data); });
  };
  TrainConfig config = small_config(folder_ / "run");
  config.eval.early_stopping = EarlyStoppingConfig{.monitor = "eval_accuracy"};
  EXPECT_EQ(
      message(config, small_data()),
      "eval.early_stopping.monitor: this run measures no eval_accuracy; it measures eval_loss");
  config = small_config(folder_ / "run");
  config.schedule.reduce_on_plateau.emplace();
  TrainData data = small_data();
  data.evaluation.clear();
  EXPECT_THAT(message(config, data),
              HasSubstr("schedule.reduce_on_plateau.monitor: eval_loss needs evaluations"));
  config.schedule.reduce_on_plateau.reset();
  config.schedule.type = ScheduleType::kPlateau;
  EXPECT_THAT(message(config, data), HasSubstr("schedule.type: plateau needs evaluations"));
  data = small_data();
  data.evaluation[0].has_targets = false;
  data.evaluation[0].earned = [](const Params&, int64_t, int64_t) { return Earned{}; };
  EXPECT_EQ(message(config, data),
            "schedule.type: plateau watches eval_loss, and this run measures eval_reward; say "
            "constant, and schedule.reduce_on_plateau.monitor=eval_reward");
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

}  // namespace
}  // namespace mstrain
