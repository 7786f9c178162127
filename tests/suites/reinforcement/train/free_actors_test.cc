#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "core/base/error.h"
#include "core/base/log.h"
#include "tests/suites/reinforcement/train/on_a_line.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Whichever thread steps first is slow, by chance more or less so.
struct Slow : OnALine {
  static inline std::atomic<int64_t> delay_us = 0, all = 0, slow = 0;
  static inline std::atomic<std::thread::id> slow_thread;

  static EnvSpec spec() { return spec_of("slow", 20); }
  bool step(std::span<const int64_t> actions, EnvRandom&, std::span<float> rewards) {
    std::thread::id nobody;
    slow_thread.compare_exchange_strong(nobody, std::this_thread::get_id());
    ++all;
    if (slow_thread.load() == std::this_thread::get_id()) {
      ++slow;
      thread_local std::minstd_rand random;
      const auto share = static_cast<int64_t>(random() % 1000);
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us * (4500 + share) / 5000));
    }
    return move(actions, rewards);
  }
};

class FreeActors : public testing::Test {
 protected:
  FreeActors() {
    [[maybe_unused]] static const bool kKnown = (add_environment<Slow>(), true);
    Slow::all = Slow::slow = Slow::delay_us = 0;
    Slow::slow_thread = std::thread::id();
  }
  void train(const std::string& name, int64_t bound, std::vector<std::string> changes = {},
             const std::atomic<bool>* stop = nullptr) {
    changes.insert(changes.begin(), fmt::format("distribution.max_staleness={}", bound));
    run_agent(
        "algorithm: {type: impala, steps: 8, minibatches: 2, epochs: 2}\n"
        "environment: {name: slow, num_envs: 6}\n"
        "network: {hidden: [16]}\n"
        "distribution: {policy: async_actors, actors: 4}\n"
        "optimizer: {lr: 1.0e-3}\n"
        "schedule: {total_env_steps: 4000}\n"
        "checkpoint: {interval: 1000}\n"
        "eval: {interval: 2000, episodes: 2}\n"
        "log: {interval: 1}\n",
        folder_ / name, changes, real_files(), stop);
  }
  std::vector<Json> rows(const std::string& name) const {
    std::vector<Json> out;
    for (const Json& row : read_metrics(real_files(), folder_ / name + "/metrics.jsonl")) {
      if (row.contains("loss")) {
        out.push_back(row);
      }
    }
    return out;
  }

  TemporaryFolder folder_;
};

// Of three actors one is slow: in step with it the others would take as many steps.
TEST_F(FreeActors, ASlowOneHoldsNobodyBack) {
  Slow::delay_us = 8000;
  train("run", 4);
  EXPECT_LT(Slow::slow * 8, Slow::all);
  double dropped = 0;
  for (const Json& row : rows("run")) {
    EXPECT_LE(row["staleness"], 4);
    dropped += row["dropped"].get<double>();
  }
  EXPECT_GT(dropped, 0);  // what the slow one brought came too late
  EXPECT_GE(rows("run").back()["env_steps"], 4000);
}

TEST_F(FreeActors, StayWithinEachBound) {
  for (const int64_t bound : {1, 2, 7}) {
    const std::string name = fmt::format("run{}", bound);
    train(name, bound);
    double most = 0;
    for (const Json& row : rows(name)) {
      most = std::max(most, row["staleness"].get<double>());
    }
    EXPECT_GE(most, 1);
    EXPECT_LE(most, bound);
  }
}

// Every actor's state and whatever it had brought are in a checkpoint.
TEST_F(FreeActors, GoOnFromAnyCheckpoint) {
  const std::atomic<bool> stop = true;
  for (int i = 0; i < 3; ++i) {
    train("run", 3, {}, &stop);
  }
  EXPECT_FALSE(checkpoint_file(folder_ / "run", "agent-0003.bin").empty());
  const auto before = rows("run").back()["env_steps"].get<int64_t>();
  EXPECT_LT(before, 1000);
  train("run", 3);
  int64_t last = 0;
  for (const Json& row : rows("run")) {
    EXPECT_GT(row["env_steps"], last);
    last = row["env_steps"];
  }
  EXPECT_GE(last, 4000);
}

// Also while its thread is still at work.
TEST_F(FreeActors, OneThatBringsNothingIsNamed) {
  Slow::delay_us = 3'000'000;
  std::string said;
  const LogSink before = set_log_sink([&](LogLevel level, std::string_view message) {
    said += level == LogLevel::kError ? message : "";
  });
  EXPECT_THAT(
      [&] {
        train("run", 4,
              {"distribution.timeout_s=1.5", "algorithm.steps=1", "algorithm.minibatches=1",
               "environment.num_envs=3"});
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("has brought no trajectories within 1.5 s"), HasSubstr("rank "))));
  set_log_sink(before);
  EXPECT_THAT(said, HasSubstr("s (distribution.timeout_s): it is stopped, or slower than that; "
                              "waiting for what other threads are at"));
}

}  // namespace
}  // namespace mstrain::reinforcement
