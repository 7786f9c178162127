// Whole runs of a small task: what they write, and that stopping and failing change nothing.
#include "core/train/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/files_fault.h"
#include "core/io/events.h"
#include "tests/core/base/message_of.h"
#include "tests/core/train/memory_disk.h"
#include "tests/core/train/whole_runs.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(Session, WritesWhatARunDirectoryHolds) {
  const std::string directory = folder_ / "run";
  const SessionResult result = run_small(small_config(directory));
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_EQ(result.step, 20);
  for (const char* name : {"config.yaml", "metrics.jsonl", "run.json", "report.html"}) {
    EXPECT_TRUE(real_files().exists(join_path(directory, name))) << name;
  }
  EXPECT_THAT(list_checkpoints(real_files(), join_path(directory, "checkpoints")),
              ElementsAre(10, 15, 20));
  std::vector<int64_t> training;
  std::vector<int64_t> evaluation;
  for (const Json& row : read_metrics(real_files(), join_path(directory, kMetricsFile))) {
    if (row.contains("eval_loss")) {
      evaluation.push_back(row["step"]);
      EXPECT_EQ(row["eval_loss"].is_number(), true);
      EXPECT_EQ(row["eval_predictions"], 16);
    } else {
      training.push_back(row["step"]);
      for (const char* key : {"loss", "lr", "grad_norm", "samples_per_second", "step_seconds"}) {
        EXPECT_TRUE(row[key].is_number()) << key;
      }
    }
  }
  EXPECT_THAT(training, ElementsAre(1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20));
  EXPECT_THAT(evaluation, ElementsAre(4, 8, 12, 16, 20));
}

TEST_F(Session, LearnsItsTask) {
  TrainConfig config = small_config(folder_ / "run");
  config.schedule.total_steps = 300;
  config.eval.interval = 300;
  config.checkpoint.interval = 300;
  const SessionResult result = run_small(config, real_files(), small_data(), small_task(0));
  EXPECT_LT(result.evaluation->loss(), 0.1);  // the targets' variance is 0.6
}

TEST_F(Session, GoingOnEqualsNeverHavingStopped) {
  const TrainConfig straight = small_config(folder_ / "straight");
  run_small(straight);
  for (const int64_t stop_at : {1, 4, 9, 13}) {
    TrainConfig config = small_config(folder_ / ("stopped_" + std::to_string(stop_at)));
    std::atomic<bool> stop = false;
    const auto stop_there = [&](int64_t sample) { stop = sample >= stop_at * 8; };
    const SessionResult first =
        run_small(config, real_files(), small_data(stop_there), small_task(), &stop);
    EXPECT_EQ(first.outcome, Outcome::kInterrupted);
    EXPECT_EQ(first.step, stop_at + 1);
    EXPECT_EQ(run_small(config).outcome, Outcome::kFinished);
    expect_same_run(straight.run.directory(), config.run.directory(), 20);
  }
}

TEST_F(Session, TheStatesOfEveryScheduleAndRuleGoOn) {
  const auto both = [&](const char* name, const auto& change) {
    TrainConfig straight = small_config(folder_ / (std::string(name) + "_straight"));
    TrainConfig stopped = small_config(folder_ / (std::string(name) + "_stopped"));
    change(straight);
    change(stopped);
    run_small(straight);
    std::atomic<bool> stop = false;
    const auto stop_there = [&](int64_t sample) { stop = sample >= 10 * 8; };
    run_small(stopped, real_files(), small_data(stop_there), small_task(), &stop);
    run_small(stopped);
    SCOPED_TRACE(name);
    expect_same_run(straight.run.directory(), stopped.run.directory(), 20);
  };
  both("plateau", [](TrainConfig& config) {
    config.schedule.type = ScheduleType::kPlateau;
    config.schedule.patience = 0;
    config.optimizer.lr = 0.5;
  });
  both("momentum", [](TrainConfig& config) {
    config.optimizer.type = OptimizerType::kSgd;
    config.optimizer.momentum = 0.9;
  });
  both("eager", [](TrainConfig& config) { config.run.execution = Execution::kEager; });
  both("micro-batches", [](TrainConfig& config) { config.batch.micro = 2; });
  both("O0", [](TrainConfig& config) { config.fusion.level = FusionLevel::kO0; });
  both("O1", [](TrainConfig& config) { config.fusion.level = FusionLevel::kO1; });
  both("two threads", [](TrainConfig& config) { config.run.threads = 2; });
}

// The process ends without a word at each file operation in turn, as under kill -9, and the run goes on each time.
TEST_F(Session, DyingAnywhereChangesNothing) {
  const auto with_steps = [&](const std::string& directory) {
    TrainConfig config = small_config(directory);
    config.schedule.total_steps = 6;
    config.schedule.warmup_steps = 1;
    config.checkpoint.interval = 2;
    config.eval.interval = 3;
    return config;
  };
  const TrainConfig straight = with_steps(folder_ / "straight");
  run_small(straight);
  FaultyFiles files(real_files());
  const TrainConfig config = with_steps(folder_ / "dying");
  int64_t deaths = 0;
  for (int64_t n = 0;; n += 7) {
    real_files().remove_all(config.run.directory());
    files.reset({.power_off_operation = n});
    try {
      run_small(config, files);
      break;
    } catch (const IoError&) {
      ++deaths;
    }
    EXPECT_EQ(run_small(config).outcome != Outcome::kInterrupted, true);
    expect_same_run(straight.run.directory(), config.run.directory(), 6);
  }
  EXPECT_GT(deaths, 20);
}

TEST_F(Session, ARunThatDiedAfterItsLastCheckpointSaysThatItFinished) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  const Json whole = run_record(config);
  Json died = whole;
  died["status"] = kStatusRunning;
  died.erase("eval_loss");
  const std::string path = join_path(config.run.directory(), kRunFile);
  write_file_atomic(real_files(), path, died.dump());
  const std::string rows = real_files().read(join_path(config.run.directory(), kMetricsFile));
  run_small(config);
  EXPECT_EQ(run_record(config)["status"], kStatusFinished);
  EXPECT_EQ(run_record(config)["eval_loss"], whole["eval_loss"]);
  EXPECT_EQ(real_files().read(join_path(config.run.directory(), kMetricsFile)), rows);
}

// What it had told TensorBoard goes with its rows.
TEST_F(Session, ARunThatDiedBeforeItsFirstCheckpointIsForgotten) {
  TrainConfig config = small_config(folder_ / "run");
  config.checkpoint.interval = 1000;
  const auto dies = [](int64_t sample) {
    check(sample < 10 * 8, "gone");  // after some rows
  };
  EXPECT_THROW(run_small(config, real_files(), small_data(dies)), Error);
  run_small(config);
  int64_t runs = 0;
  for (const std::string& name : real_files().list(config.run.directory())) {
    if (name.starts_with(kEventsPrefix)) {
      const EventsContent content =
          read_events(real_files(), join_path(config.run.directory(), name));
      ASSERT_GT(content.events.size(), 2U);
      EXPECT_EQ(content.events[1].step, 0);
      EXPECT_TRUE(content.events[1].values.empty());  // all from step 0 on is begun anew
      ++runs;
    }
  }
  EXPECT_EQ(runs, 2);
}

TEST_F(Session, AFullDiskStopsTheRunAndKeepsTheLastCheckpoint) {
  const TrainConfig straight = small_config(folder_ / "straight");
  run_small(straight);
  for (const int64_t bytes : {100, 60000, 120000, 150000}) {
    const TrainConfig config = small_config(folder_ / ("full_" + std::to_string(bytes)));
    FaultyFiles files(real_files(), {.enospc_after_bytes = bytes, .short_writes = true});
    const std::string message = message_of<IoError>([&] { run_small(config, files); });
    EXPECT_THAT(message, HasSubstr("No space left on device"));
    EXPECT_THAT(message, testing::StartsWith(config.run.directory()));
    EXPECT_NO_THROW(
        newest_checkpoint(real_files(), join_path(config.run.directory(), "checkpoints"), false));
    EXPECT_EQ(run_small(config).outcome, Outcome::kFinished);
    expect_same_run(straight.run.directory(), config.run.directory(), 20);
  }
}

TEST_F(Session, ADamagedCheckpointIsReplacedByWhatTheRunComputesAgain) {
  const TrainConfig straight = small_config(folder_ / "straight");
  run_small(straight);
  TrainConfig config = small_config(folder_ / "damaged");
  std::atomic<bool> stop = false;
  const auto stop_there = [&](int64_t sample) { stop = sample >= 11 * 8; };
  run_small(config, real_files(), small_data(stop_there), small_task(), &stop);
  const std::string newest = join_path(config.run.directory(), "checkpoints/step-00000012");
  real_files().open(join_path(newest, kOptimizerFile), WriteMode::kAppend)->append("one more line");
  std::string warning;
  set_log_sink([&](LogLevel level, std::string_view message) {
    warning += level == LogLevel::kWarning ? std::string(message) : "";
  });
  EXPECT_EQ(run_small(config).outcome, Outcome::kFinished);
  EXPECT_THAT(warning, HasSubstr("optimizer.safetensors has"));
  EXPECT_THAT(warning, HasSubstr("going back to step-00000010"));
  expect_same_run(straight.run.directory(), config.run.directory(), 20);
}

TEST_F(Session, ARunThatFailedSaysSoWithItsReason) {
  const TrainConfig config = small_config(folder_ / "run");
  const std::string message =
      message_of<Error>([&] { run_small(config, real_files(), poisoned_data({8})); });
  EXPECT_THAT(message, HasSubstr("--change optimizer.not_finite=skip"));
  const Json run = run_record(config);
  EXPECT_EQ(run.at("status"), "failed");
  EXPECT_EQ(run.at("reason"), message);
  EXPECT_THAT(real_files().read(join_path(config.run.directory(), kReportFile)),
              HasSubstr("\"status\":\"failed\""));
}

TEST_F(Session, RunJsonSaysHowItWasStartedEachTime) {
  TrainConfig config = small_config(folder_ / "run");
  SessionStart start{.command = {"mstrain", "--config", "a.yaml"}};
  run_small(config, real_files(), small_data(), small_task(), nullptr, start);
  config.schedule.total_steps = 30;
  start.command.emplace_back("schedule.total_steps=30");
  run_small(config, real_files(), small_data(), small_task(), nullptr, start);
  const Json run = run_record(config);
  EXPECT_EQ(run.at("status"), "finished");
  EXPECT_EQ(run.at("command"), Json(start.command));
  EXPECT_FALSE(run.at("host").get<std::string>().empty());
  EXPECT_GT(run.at("memory_before_bytes").get<int64_t>(), 0);
  EXPECT_LE(run.at("memory_before_bytes").get<int64_t>(),
            run.at("peak_memory_bytes").get<int64_t>());
  EXPECT_LE(run.at("started"), run.at("updated"));
  const Json& history = run.at("history");
  ASSERT_EQ(history.size(), 2U);
  EXPECT_EQ(history[0].at("step"), 0);
  EXPECT_EQ(history[0].at("last_step"), 20);
  EXPECT_EQ(history[0].at("command").size(), 3U);
  EXPECT_EQ(history[1].at("step"), 20);
  EXPECT_EQ(history[1].at("changes"),
            Json({{{"key", "schedule.total_steps"}, {"before", "20"}, {"now", "30"}}}));
}

TEST_F(Session, MetricsAreATableAsWell) {
  const TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  const std::string table = real_files().read(join_path(config.run.directory(), "metrics.csv"));
  const std::string head = table.substr(0, table.find('\n'));
  EXPECT_THAT(head, testing::StartsWith("step,"));
  EXPECT_THAT(head, HasSubstr("eval_loss"));
  EXPECT_EQ(static_cast<size_t>(std::count(table.begin(), table.end(), '\n')),
            1 + read_metrics(real_files(), join_path(config.run.directory(), kMetricsFile)).size());
}

// By time means at any step; what goes on from there is the run that was never stopped.
TEST_F(Session, CheckpointsByTimeAreAsGoodAtEveryStep) {
  EXPECT_TRUE(TrainConfig().checkpoint.interval.is_word());
  EXPECT_EQ(TrainConfig().checkpoint.minutes, 5);
  const TrainConfig straight = small_config(folder_ / "straight");
  run_small(straight);
  TrainConfig often = small_config(folder_ / "often");
  often.checkpoint.interval = {};
  often.checkpoint.minutes = 1e-12;
  often.checkpoint.keep = 100;
  run_small(often);
  expect_same_run(straight.run.directory(), often.run.directory(), 20);
  EXPECT_EQ(list_checkpoints(real_files(), folder_ / "often/checkpoints").size(), 20U);
  for (const int64_t step : {1, 7, 13, 19}) {
    for (const int64_t later : list_checkpoints(real_files(), folder_ / "often/checkpoints")) {
      if (later > step) {
        real_files().remove_all(join_path(folder_ / "often/checkpoints", checkpoint_name(later)));
      }
    }
    run_small(often);
    expect_same_run(straight.run.directory(), often.run.directory(), 20);
  }
}

TEST_F(Session, EvaluationCanBeOff) {
  const TrainConfig straight = small_config(folder_ / "straight");
  run_small(straight);
  TrainConfig config = small_config(folder_ / "run");
  config.eval.interval = {};
  const SessionResult result = run_small(config);
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_FALSE(result.evaluation.has_value());
  EXPECT_EQ(checkpoint_file(folder_ / "run", 20, kModelFile),
            checkpoint_file(folder_ / "straight", 20, kModelFile));
  EXPECT_EQ(run_small(config).outcome, Outcome::kWasFinished);
}

TEST_F(Session, ALossThatIsNoNumberStopsTheRunAtItsStep) {
  TrainConfig config = small_config(folder_ / "run");
  EXPECT_THAT(message_of<Error>([&] { run_small(config, real_files(), poisoned_data({7})); }),
              HasSubstr("step 7: the loss is nan"));
  EXPECT_THAT(list_checkpoints(real_files(), join_path(config.run.directory(), "checkpoints")),
              ElementsAre(5));
}

TEST_F(Session, EagerAndGraphTrainAlike) {
  TrainConfig eager = small_config(folder_ / "eager");
  eager.run.execution = Execution::kEager;
  TrainConfig graph = small_config(folder_ / "graph");
  graph.fusion.level = FusionLevel::kO0;
  run_small(eager);
  run_small(graph);
  EXPECT_EQ(timeless_metrics(eager.run.directory()), timeless_metrics(graph.run.directory()));
  EXPECT_EQ(checkpoint_file(eager.run.directory(), 20, kModelFile),
            checkpoint_file(graph.run.directory(), 20, kModelFile));
}

TEST_F(Session, MicroBatchesAddUpToTheStep) {
  TrainConfig whole = small_config(folder_ / "whole");
  TrainConfig parts = small_config(folder_ / "parts");
  parts.batch.micro = 2;
  run_small(whole, real_files(), small_data(), small_task(0));
  run_small(parts, real_files(), small_data(), small_task(0));
  const auto last_loss = [](const TrainConfig& config) {
    return read_metrics(real_files(), join_path(config.run.directory(), kMetricsFile))
        .back()["eval_loss"]
        .get<double>();
  };
  // Sums of floats in another order, over 20 updates.
  EXPECT_NEAR(last_loss(whole), last_loss(parts), 1e-4);
}

TEST_F(Session, EvaluatingDoesNotChangeTraining) {
  TrainConfig often = small_config(folder_ / "often");
  often.eval.interval = 1;
  TrainConfig seldom = small_config(folder_ / "seldom");
  seldom.eval.interval = 1000;
  run_small(often);
  run_small(seldom);
  EXPECT_EQ(checkpoint_file(often.run.directory(), 20, kModelFile),
            checkpoint_file(seldom.run.directory(), 20, kModelFile));
}

TEST_F(Session, APlanThatDoesNotFitIsRefusedBeforeTheFirstStep) {
  TrainConfig config = small_config(folder_ / "run");
  config.memory.limit_gb = 1e-7;
  EXPECT_THAT(message_of<PlanError>([&] { run_small(config); }), HasSubstr("memory.limit_gb"));
}

}  // namespace
}  // namespace mstrain
