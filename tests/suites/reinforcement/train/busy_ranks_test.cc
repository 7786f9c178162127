// Ranks that wait for one that is longer at something than distribution.timeout_s.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "tests/amount.h"
#include "tests/embedding_cache/hooked_files.h"
#include "tests/suites/reinforcement/train/on_a_line.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

using embedding_cache::HookedFiles;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kTimeout = kSanitized ? 5 : 1;  // seconds

void be_busy(double timeouts) {
  std::this_thread::sleep_for(std::chrono::duration<double>(timeouts * kTimeout));
}

// Episodes of eight steps that take their time: all of them, or those of other threads than the one that took the first.
struct Drowsy : OnALine {
  static inline std::atomic<double> timeouts = 0;  // of an episode
  static inline std::atomic<bool> all = false;
  static inline std::atomic<std::thread::id> lively;
  static constexpr int kSteps = 8;

  static EnvSpec spec() { return spec_of("drowsy", kSteps); }
  bool step(std::span<const int64_t> actions, EnvRandom&, std::span<float> rewards) {
    std::thread::id nobody;
    lively.compare_exchange_strong(nobody, std::this_thread::get_id());
    if (all || lively.load() != std::this_thread::get_id()) {
      be_busy(timeouts / kSteps);
    }
    return move(actions, rewards);
  }
};

class BusyRanks : public testing::Test {
 protected:
  BusyRanks() {
    [[maybe_unused]] static const bool kKnown = (add_environment<Drowsy>(), true);
    Drowsy::timeouts = 0;
    Drowsy::all = false;
    Drowsy::lively = std::thread::id();
  }
  void train(std::vector<std::string> changes, FileSystem& files = real_files()) {
    changes.insert(changes.begin(), fmt::format("distribution.timeout_s={}", kTimeout));
    run_agent(kSmallPpo, folder_ / "run", changes, files);
  }

  TemporaryFolder folder_;
};

// The second rank alone steps environments; the first one evaluates.
TEST_F(BusyRanks, AnEvaluationMayTakeLonger) {
  Drowsy::timeouts = 1.5;
  train({"environment.name=drowsy", "distribution.policy=env_servers",
         "schedule.total_env_steps=64", "eval.episodes=1"});
  EXPECT_FALSE(checkpoint_file(folder_ / "run", "agent-0001.bin").empty());
}

TEST_F(BusyRanks, TheFirstMayWriteAndReadForLonger) {
  struct Busy {
    std::string operation, file;
    int time;  // of the run, from 1
  };
  int64_t steps = 0;
  for (const auto& [operation, file, time] : {Busy{"open", "model.safetensors", 1},
                                              {"open", "report.html", 1},  // at the start
                                              {"open", "report.html", 2},  // after an evaluation
                                              {"read", "agent-0000.bin", 1}}) {
    int times = 0;
    HookedFiles files([&](std::string_view what, const std::string& path) {
      if (what == operation && path.find(file) != std::string::npos && ++times == time) {
        be_busy(1.5);
      }
    });
    steps += 64;
    EXPECT_NO_THROW(train({"distribution.policy=multi_learner", "eval.interval=64",
                           fmt::format("schedule.total_env_steps={}", steps)},
                          files))
        << file << " " << time;
    EXPECT_GE(times, time) << file;
  }
}

TEST_F(BusyRanks, WhatStopsTheFirstIsTold) {
  HookedFiles files([&](std::string_view what, const std::string& path) {
    if (what == "open" && path.find("model.safetensors") != std::string::npos) {
      throw IoError(path + ": no space");
    }
  });
  EXPECT_THAT([&] { train({"distribution.policy=multi_learner"}, files); },
              ThrowsMessage<IoError>(HasSubstr("model.safetensors")));
}

// Of six actors two act, and the others wait until these have brought what they are at, some of them twice.
TEST_F(BusyRanks, ActorsWaitForThoseBeforeThem) {
  Drowsy::timeouts = 0.6;
  Drowsy::all = true;
  train({"environment.name=drowsy", "environment.num_envs=6", "algorithm.steps=8",
         "algorithm.minibatches=1", "algorithm.epochs=1", "distribution.policy=async_actors",
         "distribution.max_staleness=1", "distribution.actors=7", "eval.interval=none",
         "checkpoint.interval=100000", "schedule.total_env_steps=64"});
}

}  // namespace
}  // namespace mstrain::reinforcement
