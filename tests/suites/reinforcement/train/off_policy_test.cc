#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "tests/amount.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kSmallDqn =
    "algorithm: {type: dqn, buffer_size: 200, learning_starts: 32, batch_size: 16, n_step: 2, "
    "prioritised: true, dueling: true, target_interval: 5}\n"
    "environment: {name: cartpole, num_envs: 4}\n"
    "network: {hidden: [16], activation: relu}\n"
    "optimizer: {type: adam, lr: 1.0e-3}\n"
    "schedule: {total_env_steps: 640}\n"
    "checkpoint: {interval: 128}\n"
    "eval: {interval: 256, episodes: 3}\n"
    "log: {interval: 64}\n";

// kSmallDqn's, for one that acts in boxes.
std::vector<std::string> small(const std::string& type) {
  return {"environment.name=pendulum", "algorithm.type=" + type};
}
const std::string kSmallBox =
    "algorithm: {type: sac, buffer_size: 200, learning_starts: 32, batch_size: 16}\n" +
    std::string(kSmallDqn).substr(std::string(kSmallDqn).find("environment"));

class OffPolicyRun : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

void expect_same_end(const std::string& a, const std::string& b) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "agent-0000.bin"}) {
    EXPECT_TRUE(checkpoint_file(a, file) == checkpoint_file(b, file)) << file;
  }
}

TEST_F(OffPolicyRun, StopsWhenAskedToAndGoesOnBitForBit) {
  for (const std::string type : {"dqn", "qmix", "sac", "td3", "ddpg"}) {
    const std::string config = type == "dqn" ? kSmallDqn : kSmallBox;
    auto changes = type == "dqn" ? std::vector<std::string>() : small(type);
    if (type == "qmix") {
      changes[0] = "environment.name=spread";
    }
    const std::string straight = folder_ / (type + "_straight"), stopped = folder_ / type;
    run_agent(config, straight, changes);
    const std::atomic<bool> stop = true;
    run_agent(config, stopped, changes, real_files(), &stop);  // after an iteration, with no update
    FaultyFiles files(real_files());
    files.reset({.power_off_operation = 150});
    EXPECT_THROW(run_agent(config, stopped, changes, files), IoError);
    EXPECT_EQ(run_agent(config, stopped, changes).outcome, Outcome::kFinished);
    expect_same_end(straight, stopped);
  }
}

// Whoever steps the environments, stopped and started again or not.
TEST_F(OffPolicyRun, IsTheSameWithServersOfEnvironments) {
  const std::atomic<bool> stop = true;
  for (const std::string type : {"dqn", "qmix", "sac"}) {
    const std::string config = type == "dqn" ? kSmallDqn : kSmallBox;
    auto changes = type == "dqn" ? std::vector<std::string>() : small(type);
    if (type == "qmix") {
      changes[0] = "environment.name=spread";
    }
    run_agent(config, folder_ / type, changes);
    for (const auto& [policy, actors] :
         {std::pair("single_learner_fine", 2), {"single_learner_fine", 4}, {"env_servers", 3}}) {
      auto placed = changes;
      placed.insert(placed.end(), {std::string("distribution.policy=") + policy,
                                   fmt::format("distribution.actors={}", actors)});
      const std::string directory = folder_ / fmt::format("{}_{}_{}", type, policy, actors);
      if (actors < 4) {
        run_agent(config, directory, placed, real_files(), &stop);
      }
      run_agent(config, directory, placed);
      for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
        EXPECT_TRUE(checkpoint_file(directory, file) == checkpoint_file(folder_ / type, file))
            << directory << " " << file;
      }
    }
  }
}

// Each learner keeps the steps of its environments and learns from its parts of every batch, whose gradients are added in their order.
// Stopped and started again, as well; in memory, and on disk.
TEST_F(OffPolicyRun, LearnersWhoShareTheStepsHaveTheBitsOfOne) {
  const std::vector<std::vector<std::string>> kinds = {
      {"dqn"},
      {"dqn", "environment.name=t_maze", "network.memory=8", "algorithm.unroll=4"},
      {"qmix", "environment.name=spread"},
      {"sac", "environment.name=pendulum"},
      {"td3", "environment.name=pendulum"},
      {"ddpg", "environment.name=pendulum"}};
  const std::atomic<bool> stop = true;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const std::string& type = kinds[kind].front();
    const auto train = [&](const std::string& name, std::vector<std::string> changes,
                           const std::atomic<bool>* until = nullptr) {
      changes.insert(changes.end(), kinds[kind].begin() + 1, kinds[kind].end());
      changes.insert(changes.end(), {"algorithm.type=" + type, "algorithm.parts=4"});
      const std::string directory = folder_ / fmt::format("{}_{}", name, kind);
      run_agent(type == "dqn" ? kSmallDqn : kSmallBox, directory, changes, real_files(), until);
      return directory;
    };
    const std::string single = train("single", {});
    const auto expect_same = [&](const std::string& directory) {
      for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
        EXPECT_TRUE(checkpoint_file(single, file) == checkpoint_file(directory, file))
            << directory << " " << file;
      }
    };
    const std::vector<std::string> two{"distribution.policy=multi_learner", "distribution.actors=2",
                                       "algorithm.buffer_on=disk"};
    train("two", two, &stop);
    expect_same(train("two", two));
    expect_same(train("four", {"distribution.policy=multi_learner", "distribution.actors=4"}));
  }
}

TEST_F(OffPolicyRun, LearnersWhoAddOtherwiseAgreeWithOne) {
  const auto rows = [&](const std::vector<std::string>& changes, const std::string& name) {
    run_agent(kSmallDqn, folder_ / name, changes);
    return read_metrics(real_files(), join_path(folder_ / name, kMetricsFile));
  };
  const auto single = rows({}, "single");
  const auto shared =
      rows({"distribution.policy=multi_learner", "distribution.actors=2"}, "shared");
  for (const char* key :
       {"loss", "q", "grad_norm"}) {  // of the first of them: sums differ in their order alone
    const double value = single.front()[key].get<double>();
    EXPECT_NEAR(shared.front()[key].get<double>(), value, 1e-5 * std::max(1.0, std::abs(value)))
        << key;
  }
  EXPECT_THAT(
      [&] {
        run_agent(kSmallDqn, folder_ / "shared",
                  {"distribution.policy=multi_learner", "distribution.actors=4",
                   "schedule.total_env_steps=700"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("distribution.actors: 2, now 4")));
}

// Sequences of a network that remembers, by priority and alike, whoever steps the environments, stopped and started again.
TEST_F(OffPolicyRun, AMemoryGoesOnBitForBitWhoeverStepsTheEnvironments) {
  const std::atomic<bool> stop = true;
  for (const std::string prioritised : {"true", "false"}) {
    const std::vector<std::string> remembers{"environment.name=t_maze", "network.memory=8",
                                             "algorithm.unroll=4", "algorithm.burn_in=2",
                                             "algorithm.prioritised=" + prioritised};
    const auto at = [&](const std::string& name, const std::vector<std::string>& placed,
                        bool stops) {
      const std::string directory = folder_ / (name + prioritised);
      std::vector<std::string> changes = remembers;
      changes.insert(changes.end(), placed.begin(), placed.end());
      if (stops) {
        run_agent(kSmallDqn, directory, changes, real_files(), &stop);
        FaultyFiles files(real_files());
        files.reset({.power_off_operation = 150});
        EXPECT_THROW(run_agent(kSmallDqn, directory, changes, files), IoError);
      }
      run_agent(kSmallDqn, directory, changes);
      return directory;
    };
    const std::string straight = at("straight", {}, false);
    expect_same_end(straight, at("stopped", {}, true));
    const std::string served =
        at("served", {"distribution.policy=env_servers", "distribution.actors=3"}, true);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(checkpoint_file(straight, file) == checkpoint_file(served, file)) << file;
    }
  }
}

TEST_F(OffPolicyRun, OnlyAMemoryFindsTheEndOfAMaze) {
  if (kSanitized) {
    GTEST_SKIP() << "whole runs: the plain build counts them";
  }
  const auto reached = [&](int64_t units) {
    const std::string directory = folder_ / fmt::format("{}", units);
    run_agent(real_files().read(join_path(MSTRAIN_SOURCE_DIR, "configs/dqn_t_maze.yaml")),
              directory,
              {"schedule.total_env_steps=40000", "eval.interval=40000",
               fmt::format("network.memory={}", units)});
    const auto rows = read_metrics(real_files(), join_path(directory, kMetricsFile));
    return rows.back()["eval_return"].get<double>();
  };
  EXPECT_GT(reached(32), 0.7);
  EXPECT_LT(reached(0), 0.35);
}

// After one update, a policy that waits for the second is as it began.
TEST_F(OffPolicyRun, APolicyWaitsForItsTurn) {
  const auto after_one = [&](int64_t delay) {
    auto changes = small("td3");
    changes.insert(changes.end(), {"schedule.total_env_steps=32",
                                   fmt::format("algorithm.policy_delay={}", delay)});
    const std::string directory = folder_ / fmt::format("{}", delay);
    run_agent(kSmallBox, directory, changes);
    return checkpoint_file(directory, "model.safetensors");
  };
  EXPECT_EQ(after_one(2), after_one(1000));
  EXPECT_NE(after_one(2), after_one(1));
}

TEST_F(OffPolicyRun, TellsWhatItLearns) {
  run_agent(kSmallBox, folder_ / "run", {"environment.name=pendulum"});
  const auto rows = read_metrics(real_files(), join_path(folder_ / "run", kMetricsFile));
  for (const char* key : {"env_steps", "loss", "critic_loss", "actor_loss", "entropy",
                          "temperature", "q", "grad_norm", "lr"}) {
    EXPECT_TRUE(rows.front().contains(key)) << key;
  }
}

TEST_F(OffPolicyRun, RefusesWhatCannotBe) {
  const auto fails = [&](std::vector<std::string> changes, const std::string& message) {
    EXPECT_THAT([&] { run_agent(kSmallDqn, folder_ / "bad", changes); },
                ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  fails({"algorithm.buffer_size=15"}, "algorithm.buffer_size: 15 steps are fewer than a batch");
  fails({"network.memory=8", "algorithm.unroll=80"},
        "than a sequence (burn_in, unroll, n_step) of every environment: expected at least 324");
  fails({"distribution.policy=async_actors"},
        "expected single, single_learner_fine, env_servers or multi_learner");
  fails({"distribution.policy=multi_learner", "distribution.actors=4", "algorithm.parts=6"},
        "algorithm.parts: 6 parts of a batch cannot be shared equally by 4 learners");
  fails({"algorithm.parts=3"}, "algorithm.batch_size: 16 do not divide into 3 equal parts");
  fails({"distribution.policy=env_servers", "distribution.actors=4"}, "equally by 3 ranks");
  fails({"environment.name=pendulum"}, "sac, td3 and ddpg act in boxes");
  fails({"environment.name=connect_four"}, "alphazero plays games");
  fails({"algorithm.gamma=0.9"}, "algorithm.discount");
  EXPECT_THAT(
      [&] {
        run_agent(kSmallDqn, folder_ / "bad", {"optimizer.lr=1e30", "optimizer.clip_grad=null"});
      },
      ThrowsMessage<Error>(HasSubstr("the run diverged")));
}

TEST_F(OffPolicyRun, SolvesWhatItsConfigurationsSay) {
  if (kSanitized) {
    GTEST_SKIP() << "whole runs: the plain build counts them";
  }
  const auto reaches = [&](const std::string& name, int64_t seed,
                           std::vector<std::string> changes) {
    const std::string shipped =
        real_files().read(join_path(MSTRAIN_SOURCE_DIR, fmt::format("configs/{}.yaml", name)));
    changes.push_back(fmt::format("run.seed={}", seed));
    const RunOutcome done = run_agent(shipped, folder_ / fmt::format("{}_{}", name, seed), changes);
    EXPECT_THAT(done.out, HasSubstr("eval.stop_at_return is reached")) << name << " " << seed;
  };
  for (int64_t seed = 1; seed <= repetitions(1, 5); ++seed) {
    reaches("dqn_cartpole", seed, {});
    reaches("sac_pendulum", seed, {"eval.stop_at_return=-200"});
    reaches("td3_pendulum", seed, {"eval.stop_at_return=-200"});
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
