// What a run does where another one stands: go on, change its mind, begin anew, refuse.
#include "core/train/previous_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/train/run_record.h"
#include "tests/core/base/message_of.h"
#include "tests/core/train/whole_runs.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(Session, AFinishedRunSaysSoAndMoreStepsGoOn) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  const std::string before = checkpoint_file(config.run.directory(), 20, "MANIFEST.json");
  const auto fails_if_used = [](int64_t) { FAIL() << "a finished run took data"; };
  const SessionResult again = run_small(config, real_files(), small_data(fails_if_used));
  EXPECT_EQ(again.outcome, Outcome::kWasFinished);
  EXPECT_EQ(checkpoint_file(config.run.directory(), 20, "MANIFEST.json"), before);
  config.schedule.total_steps = 25;
  EXPECT_EQ(run_small(config).step, 25);
}

// run.json is written now and then: what a kill leaves there may be older than the newest checkpoint.
TEST_F(Session, AKilledRunCameAtLeastAsFarAsTheCheckpointThatItLeft) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  const std::string path = join_path(config.run.directory(), kRunFile);
  Json record = run_record(config);
  record["status"] = record["history"][0]["status"] = kStatusRunning;
  record["step"] = record["history"][0]["last_step"] = 5;
  write_file_atomic(real_files(), path, record.dump());
  config.schedule.total_steps = 25;
  run_small(config);
  const Json history = run_record(config).at("history");
  EXPECT_EQ(history.at(0).at("status"), kStatusStopped);
  EXPECT_EQ(history.at(0).at("last_step"), 20);
  EXPECT_EQ(history.at(1).at("step"), 20);
}

// What changes nothing, changed, leaves every bit as it is; what changes something acts from that step on.
TEST_F(Session, ARunMayChangeItsMindOnRequest) {
  TrainConfig straight = small_config(folder_ / "straight");
  straight.schedule.type = ScheduleType::kConstant;
  straight.optimizer.clip_grad = 1e6;
  run_small(straight);
  TrainConfig config = straight;
  config.run.output_dir = folder_ / "changed";
  config.schedule.total_steps = 12;
  run_small(config);
  config.schedule.total_steps = 20;
  config.optimizer.clip_grad = 1e7;  // beyond every norm, as before
  EXPECT_THAT(message_of<ConfigError>([&] { run_small(config); }),
              testing::AllOf(HasSubstr("optimizer.clip_grad: 1.0e+6, now 1.0e+7"),
                             HasSubstr("--change KEY=VALUE"), HasSubstr("--restart")));
  const SessionStart start{.changes = {"optimizer.clip_grad"}};
  run_small(config, real_files(), small_data(), small_task(), nullptr, start);
  expect_same_run(straight.run.directory(), config.run.directory(), 20);

  config.schedule.total_steps = 24;
  config.optimizer.lr = 0.25;
  run_small(config, real_files(), small_data(), small_task(), nullptr,
            {.changes = {"optimizer.lr"}});
  for (const Json& row :
       read_metrics(real_files(), join_path(config.run.directory(), kMetricsFile))) {
    if (row.contains("lr") && row.at("step") > 4) {
      EXPECT_EQ(row.at("lr"), row.at("step") > 20 ? 0.25 : 1e-2) << row;
    }
  }
  EXPECT_THAT(run_record(config).at("history").back().at("changes").dump(),
              HasSubstr("{\"before\":\"0.01\",\"key\":\"optimizer.lr\",\"now\":\"0.25\"}"));
}

TEST_F(Session, AFailedRunGoesOnAsItsAdviceSays) {
  TrainConfig config = small_config(folder_ / "run");
  EXPECT_THROW(run_small(config, real_files(), poisoned_data({8})), Error);
  config.optimizer.not_finite = NotFinite::kSkip;
  const SessionResult result = run_small(config, real_files(), poisoned_data({8}), small_task(),
                                         nullptr, {.changes = {"optimizer.not_finite"}});
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_EQ(result.step, 20);
}

TEST_F(Session, OtherDataAndBatchesBeginAtTheStepThatAsksForThem) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  config.schedule.total_steps = 24;
  config.batch.global = 4;
  std::vector<int64_t> firsts;
  TrainData other = small_data([&](int64_t first) { firsts.push_back(first); });
  EXPECT_EQ(
      run_small(config, real_files(), other, small_task(), nullptr, {.changes = {"batch.global"}})
          .step,
      24);
  EXPECT_THAT(firsts, ElementsAre(160, 164, 168, 172));  // where 20 steps of 8 had come to
  config.schedule.total_steps = 26;
  other.identity = "other";
  EXPECT_THAT(message_of<Error>([&] { run_small(config, real_files(), other); }),
              HasSubstr("was trained on other data"));
}

// A run that says where each of its batches begins in the data, which other files or another order may be.
class OfData {
 public:
  explicit OfData(const std::string& directory) : config_(small_config(directory)) {
    config_.checkpoint.interval = 1000;
    config_.eval.interval = {};
    run(20);
  }

  std::vector<int64_t> run(int64_t steps, const SessionStart& start = {}, bool dies = false) {
    std::vector<int64_t> firsts;
    TrainData data = small_data([&](int64_t first) {
      firsts.push_back(first);
      check(!dies, "gone");
    });
    data.identity = file;
    config_.schedule.total_steps = steps;
    YamlNode tree = resolved(config_);
    set_config(tree, "data.shuffle", YamlNode::boolean(shuffle));
    set_config(tree, "data.train", YamlNode::string(file));
    const auto never = [](const RunPlan&, int64_t) {};
    const std::atomic<bool> stop = false;
    try {
      train(real_files(), config_, tree, small_task(), data, never, stop, {}, start);
    } catch (const ConfigError&) {
      throw;
    } catch (const Error&) {
      EXPECT_TRUE(dies);
    }
    return firsts;
  }

  bool shuffle = true;
  std::string file = "a";

 private:
  TrainConfig config_;
};

TEST_F(Session, AChangeOfDataThatNoCheckpointHasSeenIsStillOne) {
  const auto anew = ElementsAre(0, 8);
  const SessionStart asks{.changes = {"data.shuffle", "data.train"}};
  OfData order(folder_ / "order");
  order.shuffle = false;
  EXPECT_THROW(order.run(22), ConfigError);
  order.run(22, asks, /*dies=*/true);
  EXPECT_THAT(order.run(22, asks), anew);
  EXPECT_THAT(order.run(24, asks), ElementsAre(16, 24));  // a checkpoint has seen it

  OfData other(folder_ / "other");
  other.file = "b";
  other.run(22, asks, /*dies=*/true);
  EXPECT_THAT(other.run(22), anew);  // that it is asked for is known

  OfData back(folder_ / "back");
  back.shuffle = false;
  back.run(22, asks, /*dies=*/true);
  back.shuffle = true;
  EXPECT_THAT(back.run(22), ElementsAre(160, 168));  // nothing has come of it
}

TEST_F(Session, AConfigurationAsLongAsAFileMayBeIsReadBack) {
  TrainConfig config = small_config(folder_ / "run");
  config.eval.prompts.assign(19'900, std::string(50, '"'));  // longer where they are written
  run_small(config);
  EXPECT_GT(real_files().read(folder_ / "run/config.yaml").size(), 1U << 20);
  config.schedule.total_steps = 25;
  EXPECT_EQ(run_small(config).step, 25);
}

TEST_F(Session, ARestartBeginsAnewAndLeavesOtherFilesAlone) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  write_file_atomic(real_files(), folder_ / "run/notes.txt", "mine");
  config.optimizer.lr = 0.25;
  const SessionResult result =
      run_small(config, real_files(), small_data(), small_task(), nullptr, {.restart = true});
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_EQ(real_files().read(folder_ / "run/notes.txt"), "mine");
  EXPECT_EQ(run_record(config).at("history").size(), 1U);
  TrainConfig fresh = config;
  fresh.run.output_dir = folder_ / "fresh";
  run_small(fresh);
  expect_same_run(fresh.run.directory(), config.run.directory(), 20);
}

TEST_F(Session, ARestartThatCannotBeginLosesNothing) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  const auto contents = [&] {
    std::map<std::string, std::string> out;
    for (const char* below : {"run", "run/checkpoints"}) {
      for (const std::string& name : real_files().list(folder_ / below)) {
        const std::string path = join_path(folder_ / below, name);
        out[path] = real_files().is_directory(path) ? "" : real_files().read(path);
      }
    }
    return out;
  };
  const auto before = contents();
  const auto restart = [&](const TrainData& data) {
    run_small(config, real_files(), data, small_task(), nullptr, {.restart = true});
  };
  const auto unread = [](int64_t) { fail("rand.bin: id 3100 is not below the vocabulary"); };
  EXPECT_THAT(message_of<Error>([&] { restart(small_data(unread)); }), HasSubstr("id 3100"));
  EXPECT_EQ(contents(), before);
  config.memory.limit_gb = 1e-9;
  EXPECT_THROW(restart(small_data()), PlanError);
  EXPECT_EQ(contents(), before);
}

TEST_F(Session, ARunWithoutCheckpointsBeginsAnewUnlessItHadEnded) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  real_files().remove_all(folder_ / "run/checkpoints");
  const std::string metrics = real_files().read(folder_ / "run/metrics.jsonl");
  EXPECT_THAT(message_of<ConfigError>([&] { run_small(config); }),
              HasSubstr("run: holds the measurements of a run that was finished at step 20, and "
                        "its checkpoints are gone; choose another run.output_dir, or begin anew "
                        "with --restart"));
  EXPECT_EQ(real_files().read(folder_ / "run/metrics.jsonl"), metrics);
  std::string warning;
  set_log_sink([&](LogLevel level, std::string_view message) {
    warning += level == LogLevel::kWarning ? std::string(message) : "";
  });
  write_file_atomic(real_files(), folder_ / "run/run.json", R"({"status": "running"})");
  EXPECT_EQ(run_small(config).step, 20);
  EXPECT_THAT(warning, HasSubstr("came to step 20 and left no checkpoint; it begins anew"));
  warning.clear();
  config.schedule.total_steps = 13;
  EXPECT_EQ(run_small(config).outcome, Outcome::kWasFinished);
  EXPECT_THAT(warning, HasSubstr("schedule.total_steps: 13 are fewer than the 20 steps that "));
}

TEST_F(Session, KeysThatWouldMakeAnotherRunAreRefusedByName) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  TrainConfig changed = config;
  changed.optimizer.lr = 0.5;
  changed.batch.global = 4;
  changed.log.interval = 7;
  changed.schedule.total_steps = 30;
  const std::string message = message_of<ConfigError>([&] { run_small(changed); });
  EXPECT_THAT(message, HasSubstr("batch.global: 8, now 4; optimizer.lr: 0.01, now 0.5"));
  EXPECT_THAT(message, testing::Not(HasSubstr("log.interval")));
  changed = config;
  changed.log.interval = 7;
  changed.run.name = "renamed";
  changed.schedule.total_steps = 22;
  EXPECT_EQ(run_small(changed).step, 22);
}

TEST_F(Session, OtherDataAreRefused) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  config.schedule.total_steps = 25;
  TrainData data = small_data();
  data.identity = "others";
  EXPECT_THAT(message_of<Error>([&] { run_small(config, real_files(), data); }),
              HasSubstr("other data"));
}

TEST_F(Session, OneProcessAtATime) {
  const TrainConfig config = small_config(folder_ / "run");
  const RunDirectory held(real_files(), config.run.directory());
  EXPECT_THAT(message_of<Error>([&] { run_small(config); }),
              HasSubstr("another mstrain is at work here"));
}

TEST_F(Session, NeverMeansNeverToGoOn) {
  TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  config.checkpoint.resume = Resume::kNever;
  config.schedule.total_steps = 30;
  EXPECT_THAT(message_of<ConfigError>([&] { run_small(config); }),
              HasSubstr("checkpoint.resume: never"));
}

}  // namespace
}  // namespace mstrain
