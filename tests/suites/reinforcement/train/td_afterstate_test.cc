#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "suites/reinforcement/train/config.h"
#include "tests/amount.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kSmall =
    "algorithm: {type: td_afterstate, tuples: [[0, 1, 2, 3], [4, 5, 6, 7]], train_every: 8}\n"
    "environment: {name: \"2048\", num_envs: 20}\n"
    "schedule: {total_env_steps: 16000}\n"
    "checkpoint: {interval: 4000}\n"
    "eval: {interval: 8000, episodes: 10}\n"
    "log: {interval: 4000}\n";

class TdAfterstateRun : public testing::Test {
 protected:
  void expect_same(const std::string& a, const std::string& b) {
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(checkpoint_file(folder_ / a, file) == checkpoint_file(folder_ / b, file))
          << file << " " << b;
    }
  }
  TemporaryFolder folder_;
};

TEST_F(TdAfterstateRun, IsTheSameHoweverItIsRun) {
  // A limit of steps, so that some episodes are cut off.
  const std::string limit = "environment.time_limit=300";
  run_agent(kSmall, folder_ / "straight", {limit});
  const std::atomic<bool> stop = true;
  EXPECT_EQ(run_agent(kSmall, folder_ / "stopped", {limit}, real_files(), &stop).outcome,
            Outcome::kInterrupted);
  run_agent(kSmall, folder_ / "stopped", {limit, "schedule.total_env_steps=9000"});
  run_agent(kSmall, folder_ / "stopped", {limit});
  expect_same("straight", "stopped");
  run_agent(kSmall, folder_ / "threads", {limit, "run.threads=3"});
  expect_same("straight", "threads");
  run_agent(
      kSmall, folder_ / "served",
      {limit, "distribution.policy=single_learner_fine", "distribution.actors=2", "run.threads=2"});
  expect_same("straight", "served");
}

TEST_F(TdAfterstateRun, LearnsInSeconds) {
  run_agent(kSmall, folder_ / "run",
            {fmt::format("schedule.total_env_steps={}", kSanitized ? 40000 : 400000),
             "eval.interval=40000", "eval.episodes=30", "checkpoint.interval=400000"});
  const std::vector<Json> rows =
      read_metrics(real_files(), join_path(folder_ / "run", kMetricsFile));
  double last = 0;
  for (const Json& row : rows) {
    last = row.value(kEvalReturn, last);
  }
  // Moves by chance have 0.8 (docs/reinforcement.md).
  EXPECT_GT(last, kSanitized ? 1.5 : 5);
}

TEST_F(TdAfterstateRun, RefusesWhatCannotBe) {
  const auto fails = [&](std::vector<std::string> changes, const std::string& message) {
    EXPECT_THAT([&] { run_agent(kSmall, folder_ / "bad", changes); },
                ThrowsMessage<ConfigError>(HasSubstr(message)))
        << message;
  };
  fails({"environment.name=cartpole"}, "td_afterstate plays 2048");
  fails({"environment.scale_rewards=2"}, "environment.scale_rewards");
  fails({"network.hidden=[8]"}, "network.hidden");
  fails({"optimizer.lr=0.5"}, "optimizer.lr: td_afterstate has algorithm.step_size");
  fails({"algorithm.tuples=[[0, 16]]"}, "algorithm.tuples[0]");
  fails({"algorithm.simulations=1"}, "expected 0, or at least 2");
  fails({"distribution.policy=multi_learner", "distribution.actors=2"}, "expected single");
}

}  // namespace
}  // namespace mstrain::reinforcement
