#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/log.h"
#include "core/train/report_data.h"
#include "suites/reinforcement/env/environment.h"
#include "tests/amount.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class AgentRun : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

const std::vector<std::string> kRemembers{"environment.name=t_maze", "network.memory=8"};

// What was measured, without the time that it took.
std::vector<Json> measured(const std::string& directory) {
  std::vector<Json> rows = read_metrics(real_files(), join_path(directory, kMetricsFile));
  for (Json& row : rows) {
    for (const char* key :
         {"step_seconds", "steps_per_second", "wall_seconds", "time", "eval_seconds"}) {
      row.erase(key);
    }
  }
  return rows;
}

void expect_same_run(const std::string& a, const std::string& b) {
  EXPECT_EQ(measured(a), measured(b));
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "agent-0000.bin"}) {
    EXPECT_EQ(checkpoint_file(a, file), checkpoint_file(b, file)) << file;
  }
  const auto looks = [](const std::string& run) {
    return real_files().read(join_path(run, kEvaluationsFile));
  };
  EXPECT_EQ(looks(a), looks(b));
}

TEST_F(AgentRun, WritesWhatOtherRunsWrite) {
  const RunOutcome done = run_agent(kSmallPpo, folder_ / "run");
  EXPECT_THAT(done.out, HasSubstr("finished at step 640, eval_return"));
  const std::vector<Json> rows = measured(folder_ / "run");
  int evaluations = 0;
  for (const Json& row : rows) {
    if (row.contains("eval_return")) {
      ++evaluations;
      EXPECT_GE(row["eval_return_most"], row["eval_return_least"]);
    } else {
      for (const char* key :
           {"env_steps", "loss", "entropy", "kl", "policy_loss", "value_loss", "grad_norm", "lr"}) {
        EXPECT_TRUE(row.contains(key)) << key;
      }
    }
  }
  EXPECT_EQ(evaluations, 3);  // at 256, 512 and the end
  EXPECT_EQ(rows.front()["env_steps"], 64);
  for (const char* name : {"report.html", "run.json", "metrics.csv", "config.yaml", "log.txt"}) {
    EXPECT_TRUE(real_files().exists(folder_ / "run/" + name)) << name;
  }
  EXPECT_THAT(run_agent(kSmallPpo, folder_ / "run").out, HasSubstr("finished at step 640; raise"));
}

TEST_F(AgentRun, IsAFunctionOfItsSeed) {
  run_agent(kSmallPpo, folder_ / "a");
  run_agent(kSmallPpo, folder_ / "b");
  run_agent(kSmallPpo, folder_ / "c", {"run.seed=5"});
  expect_same_run(folder_ / "a", folder_ / "b");
  EXPECT_NE(checkpoint_file(folder_ / "a", "model.safetensors"),
            checkpoint_file(folder_ / "c", "model.safetensors"));
}

// The process ends without a word at file operations all over the run, as under kill -9, and the run goes on each time.
TEST_F(AgentRun, DyingAnywhereChangesNothing) {
  run_agent(kSmallPpo, folder_ / "straight");
  FaultyFiles files(real_files());
  const std::string directory = folder_ / "dying";
  int64_t deaths = 0;
  for (int64_t n = 0;; n += long_tests() ? 1 : kSanitized ? 211 : 97) {
    real_files().remove_all(directory);
    files.reset({.power_off_operation = n});
    try {
      run_agent(kSmallPpo, directory, {}, files);
      break;
    } catch (const IoError&) {
      ++deaths;
    }
    run_agent(kSmallPpo, directory);
    expect_same_run(folder_ / "straight", directory);
  }
  EXPECT_GT(deaths, 3);
}

TEST_F(AgentRun, EndsAtAReturnAndGoesOnWhenMoreIsAsked) {
  const RunOutcome done = run_agent(kSmallPpo, folder_ / "run", {"eval.stop_at_return=1"});
  EXPECT_THAT(done.out, HasSubstr("finished at step 256"));
  EXPECT_THAT(done.out, HasSubstr("eval.stop_at_return is reached"));
  EXPECT_THAT(run_agent(kSmallPpo, folder_ / "run", {"eval.stop_at_return=1"}).out,
              HasSubstr("raise eval.stop_at_return"));
  EXPECT_THAT(run_agent(kSmallPpo, folder_ / "run", {"eval.stop_at_return=1000"}).out,
              HasSubstr("finished at step 640"));
  run_agent(kSmallPpo, folder_ / "straight");
  expect_same_run(folder_ / "straight", folder_ / "run");
}

TEST_F(AgentRun, SaysThatItFinishedWhereItDiedBeforeItCould) {
  const std::string path = folder_ / "run/run.json";
  const auto status = [&] { return Json::parse(real_files().read(path))["status"]; };
  for (const std::string stops : {"1", "1000"}) {
    run_agent(kSmallPpo, folder_ / "run", {"eval.stop_at_return=" + stops});
    Json record = Json::parse(real_files().read(path));
    record["status"] = "running";
    write_file_atomic(real_files(), path, record.dump());
    EXPECT_EQ(run_agent(kSmallPpo, folder_ / "run", {"eval.stop_at_return=" + stops}).outcome,
              Outcome::kFinished);
    EXPECT_EQ(status(), "finished");
  }
}

TEST_F(AgentRun, AMemoryGoesOnBitForBitWithAnyNumberOfActors) {
  run_agent(kSmallPpo, folder_ / "straight", kRemembers);
  const std::atomic<bool> stop = true;
  run_agent(kSmallPpo, folder_ / "stopped", kRemembers, real_files(), &stop);
  run_agent(kSmallPpo, folder_ / "stopped", kRemembers);
  expect_same_run(folder_ / "straight", folder_ / "stopped");
  std::vector<std::string> coarse = kRemembers;
  coarse.insert(coarse.end(),
                {"distribution.policy=single_learner_coarse", "distribution.actors=2"});
  run_agent(kSmallPpo, folder_ / "coarse", coarse);
  EXPECT_EQ(measured(folder_ / "coarse"), measured(folder_ / "straight"));
}

TEST_F(AgentRun, OnlyAMemoryFindsTheEndOfAMaze) {
  const auto reached = [&](int64_t units) {
    const std::string directory = folder_ / fmt::format("{}", units);
    run_agent(real_files().read(join_path(MSTRAIN_SOURCE_DIR, "configs/ppo_t_maze.yaml")),
              directory,
              {"schedule.total_env_steps=30720", "eval.interval=none",
               fmt::format("network.memory={}", units)});
    return measured(directory).back()["episode_return"].get<double>();
  };
  EXPECT_GT(reached(16), 0.7);
  EXPECT_LT(reached(0), 0.35);
}

TEST_F(AgentRun, StopsWhenAskedToAndGoesOnBitForBit) {
  for (const std::string interval : {"256", "64"}) {  // an evaluation may be due where it stops
    const std::string straight = folder_ / ("straight" + interval);
    const std::string directory = folder_ / ("stopped" + interval);
    const std::vector<std::string> changes{"eval.interval=" + interval};
    run_agent(kSmallPpo, straight, changes);
    const std::atomic<bool> stop = true;
    const RunOutcome stopped = run_agent(kSmallPpo, directory, changes, real_files(), &stop);
    EXPECT_EQ(stopped.outcome, Outcome::kInterrupted);
    EXPECT_THAT(stopped.out, HasSubstr("saved at step 64"));
    EXPECT_EQ(run_agent(kSmallPpo, directory, changes).outcome, Outcome::kFinished);
    expect_same_run(straight, directory);
  }
}

TEST_F(AgentRun, IsNotFinishedWithoutItsLastEvaluation) {
  const auto status = [&] {
    return Json::parse(real_files().read(folder_ / "run/run.json"))["status"].get<std::string>();
  };
  const auto evaluations = [&] {
    return std::ranges::count_if(measured(folder_ / "run"),
                                 [](const Json& row) { return row.contains("eval_return"); });
  };
  run_agent(kSmallPpo, folder_ / "run", {"eval.interval=none"});
  const std::atomic<bool> stop = true;
  EXPECT_EQ(run_agent(kSmallPpo, folder_ / "run", {}, real_files(), &stop).outcome,
            Outcome::kInterrupted);
  EXPECT_EQ(status(), "interrupted");
  EXPECT_EQ(evaluations(), 0);
  EXPECT_EQ(run_agent(kSmallPpo, folder_ / "run").outcome, Outcome::kFinished);
  EXPECT_EQ(status(), "finished");
  EXPECT_EQ(evaluations(), 1);
}

TEST_F(AgentRun, StepsThatAreNeverLearnedFromAreWarnedOf) {
  const auto said = [&](const std::string& changed) {
    std::string text;
    const LogSink before =
        set_log_sink([&](LogLevel, std::string_view line) { text += std::string(line) + "\n"; });
    run_agent(
        "algorithm: {type: dqn, learning_starts: 64, batch_size: 8}\nenvironment: {name: "
        "cartpole}\n"
        "network: {hidden: [4]}\nschedule: {total_env_steps: 64}\neval: {interval: none}\n",
        folder_ / changed, {changed});
    set_log_sink(before);
    return text;
  };
  EXPECT_THAT(said("algorithm.learning_starts=64"), Not(HasSubstr("learning_starts")));
  EXPECT_THAT(said("algorithm.learning_starts=65"),
              HasSubstr("algorithm.learning_starts: 65 steps are more than "
                        "schedule.total_env_steps 64: the run learns nothing"));
  EXPECT_THAT(said("algorithm.buffer_size=63"), HasSubstr("algorithm.buffer_size keeps 63"));
}

TEST_F(AgentRun, RefusesWhatCannotBe) {
  const auto fails = [&](std::vector<std::string> changes, const std::string& message) {
    EXPECT_THAT([&] { run_agent(kSmallPpo, folder_ / "bad", changes); },
                ThrowsMessage<ConfigError>(HasSubstr(message)))
        << message;
  };
  fails({"environment.name=cartpol"}, "cartpole");
  fails({"environment.name=null"}, "command line: environment.name: is missing");
  fails({"environment.models=/nope"}, "command line: environment.models: cartpole reads none");
  fails({"algorithm.type=pp"}, "did you mean");
  fails({"algorithm=ppo"}, "algorithm: expected a section with algorithm.type");
  fails({"environment.name=pendulum", "environment.time_limit=null"},
        "environment.time_limit: null, and nothing else ends an episode of pendulum");
  fails({"algorithm.minibatches=3"}, "algorithm.minibatches: 3 do not divide algorithm.steps 16");
  fails({"algorithm.minibatches=3", "network.memory=8"},
        "algorithm.minibatches: with network.memory a minibatch has all steps of some rows: 3 do "
        "not divide the 4 rows");
  EXPECT_THAT(
      [&] {
        run_agent("algorithm: {type: sac}\nenvironment: {name: pendulum}\nnetwork: {memory: 8}\n",
                  folder_ / "bad");
      },
      ThrowsMessage<ConfigError>(HasSubstr("network.memory: is for algorithms")));
  fails({"algorithm.gamma=0.9"}, "algorithm.discount");
  fails({"environment.reset=next_step"}, "same_step");
  fails({"schedule.type=constant", "schedule.min_lr_ratio=0.1"},
        "command line: schedule.min_lr_ratio: constant does not use it");
  fails({"distribution.policy=device_only"}, "device_only");
  fails({"run.mode=generate"}, "run.mode");
  fails({"distribution.policy=multi_learner", "distribution.actors=1"}, "two ranks or more");
  fails({"distribution.policy=multi_learner", "distribution.actors=3"},
        "shared equally by 3 ranks");
  run_agent(kSmallPpo, folder_ / "run");
  EXPECT_THAT([&] { run_agent(kSmallPpo, folder_ / "run", {"algorithm.discount=0.5"}); },
              ThrowsMessage<ConfigError>(HasSubstr("algorithm.discount")));
  EXPECT_THAT([&] { run_agent(kSmallPpo, folder_ / "big", {"memory.limit_gb=0.00001"}); },
              ThrowsMessage<PlanError>(HasSubstr("memory.limit_gb")));
}

// The learner sees the same trajectories, whoever brought them.
TEST_F(AgentRun, IsTheSameWithAnyNumberOfActors) {
  run_agent(kSmallPpo, folder_ / "single");
  const std::vector<std::pair<std::string, int64_t>> placements = {{"single_learner_coarse", 2},
                                                                   {"single_learner_coarse", 4},
                                                                   {"single_learner_fine", 2},
                                                                   {"single_learner_fine", 4},
                                                                   {"env_servers", 2},
                                                                   {"env_servers", 3},
                                                                   {"env_servers", 5}};
  for (const auto& [policy, actors] : placements) {
    const std::string directory = folder_ / fmt::format("{}{}", policy, actors);
    run_agent(kSmallPpo, directory,
              {"distribution.policy=" + policy, fmt::format("distribution.actors={}", actors)});
    EXPECT_EQ(measured(directory), measured(folder_ / "single")) << directory;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_EQ(checkpoint_file(directory, file), checkpoint_file(folder_ / "single", file))
          << directory;
    }
  }
}

// Continuous actions, several agents of an environment, and a network that remembers; stopped and started again.
TEST_F(AgentRun, ServersOfEnvironmentsChangeNothing) {
  const std::vector<std::vector<std::string>> kinds = {
      {"environment.name=pendulum"}, {"environment.name=spread"}, kRemembers};
  const std::atomic<bool> stop = true;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string single = folder_ / fmt::format("single{}", i);
    run_agent(kSmallPpo, single, kinds[i]);
    for (const std::string policy : {"single_learner_fine", "env_servers"}) {
      std::vector<std::string> changes = kinds[i];
      changes.insert(changes.end(), {"distribution.policy=" + policy, "distribution.actors=2"});
      const std::string directory = folder_ / fmt::format("{}{}", policy, i);
      run_agent(kSmallPpo, directory, changes, real_files(), &stop);
      run_agent(kSmallPpo, directory, changes);
      EXPECT_EQ(measured(directory), measured(single)) << directory;
    }
  }
}

// Steps are learnt from an iteration after they were taken, whoever takes them.
TEST_F(AgentRun, ActorsGoOnWhileTheLearnerLearns) {
  const std::atomic<bool> stop = true;
  for (const std::string type : {"ppo", "impala"}) {
    for (const std::string name : {"cartpole", "pendulum"}) {
      const auto act = [&](int64_t actors, const std::atomic<bool>* until = nullptr,
                           const std::string& place = "") {
        const std::string directory =
            folder_ / fmt::format("{}_{}_{}{}", type, name, actors, place);
        YamlNode tree = parse_yaml(kSmallPpo, "t");
        set_config(tree, "algorithm", parse_yaml("steps: 16\nepochs: 2\n", "t"));
        run_agent(
            to_yaml(tree), directory,
            {"algorithm.type=" + type, "environment.name=" + name,
             "distribution.policy=async_actors", fmt::format("distribution.actors={}", actors)},
            real_files(), until);
        return directory;
      };
      const std::string two = act(2);
      const std::vector<Json> rows = measured(two);
      EXPECT_EQ(rows.front()["env_steps"], 128);  // the first iteration learns nothing
      EXPECT_EQ(rows.front()["staleness"], 1.0);
      EXPECT_EQ(measured(act(3)), rows);
      EXPECT_EQ(measured(act(5)), rows);
      act(2, &stop, "stopped");
      EXPECT_EQ(measured(act(2, nullptr, "stopped")), rows);
    }
  }
}

TEST_F(AgentRun, GoesOnWithChangesThatAreAskedFor) {
  const auto go_on = [&](const std::string& change, const std::vector<std::string>& asked) {
    run_agent(kSmallPpo, folder_ / "run", {change, "schedule.total_env_steps=768"}, real_files(),
              nullptr, asked);
  };
  run_agent(kSmallPpo, folder_ / "run");
  EXPECT_THAT([&] { go_on("optimizer.lr=5e-4", {}); },
              ThrowsMessage<ConfigError>(HasSubstr("optimizer.lr: 0.001, now 5.0e-4")));
  EXPECT_THAT([&] { go_on("network.hidden=[8]", {"network.hidden"}); },
              ThrowsMessage<ConfigError>(HasSubstr("network.hidden")));
  go_on("optimizer.lr=5e-4", {"optimizer.lr"});
  std::vector<Json> rows = measured(folder_ / "run");
  std::erase_if(rows, [](const Json& row) { return !row.contains("lr"); });
  EXPECT_LT(rows.back()["lr"].get<double>(), 2e-4);
  EXPECT_GT(rows.size(), 10U);
}

TEST_F(AgentRun, ADivergedRunSaysSo) {
  for (const std::string type : {"ppo", "a2c", "impala"}) {
    YamlNode tree = parse_yaml(kSmallPpo, "t");
    set_config(tree, "algorithm", parse_yaml("steps: 16\n", "t"));
    EXPECT_THAT(
        [&] {
          run_agent(to_yaml(tree), folder_ / type, {"algorithm.type=" + type, "optimizer.lr=1e30"});
        },
        ThrowsMessage<Error>(HasSubstr("the run diverged")));
  }
}

// Evaluations see neither scaled nor clipped nor normalised rewards, whatever lies around these wrappers.
TEST_F(AgentRun, WrappersGoTogetherInEvaluations) {
  for (const char* key : {"scale_rewards=0.5", "clip_rewards=1", "normalize_rewards=true"}) {
    const std::string directory = folder_ / key;
    const RunOutcome done =
        run_agent(kSmallPpo, directory,
                  {"environment.sticky_actions=0.25", "environment.normalize_observations=true",
                   "environment.frame_stack=2", std::string("environment.") + key});
    EXPECT_THAT(done.out, HasSubstr("eval_return")) << key;
  }
}

TEST_F(AgentRun, GoesOnWithAsManyRanks) {
  const auto with = [&](const std::string& actors, const std::string& steps) {
    run_agent(kSmallPpo, folder_ / "run",
              {"distribution.policy=multi_learner", "distribution.actors=" + actors,
               "schedule.total_env_steps=" + steps});
  };
  with("2", "128");
  EXPECT_THAT([&] { with("4", "256"); },
              ThrowsMessage<ConfigError>(HasSubstr("distribution.actors: 2, now 4")));
  EXPECT_THAT([&] { run_agent(kSmallPpo, folder_ / "one", {"distribution.actors=3"}); },
              ThrowsMessage<ConfigError>(HasSubstr("distribution.actors: 3")));
}

TEST_F(AgentRun, ServersThatCannotServeAreToldOf) {
  const auto run_with = [&](std::vector<std::string> changes) {
    run_agent(kSmallPpo, folder_ / "run", std::move(changes));
  };
  EXPECT_THAT(
      [&] {
        run_with({"distribution.policy=env_servers", "distribution.actors=4"});
      },
      ThrowsMessage<ConfigError>(
          HasSubstr("environment.num_envs: 4 environments cannot be shared equally by 3")));
  EXPECT_THAT(
      [&] {
        run_with({"distribution.policy=env_servers", "environment.normalize_observations=true"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("expected single_learner_fine")));
  EXPECT_THAT([&] { run_with({"distribution.policy=single_learner_fin"}); },
              ThrowsMessage<ConfigError>(HasSubstr("single_learner_fine")));
}

TEST_F(AgentRun, LearnersWhoShareTheEnvironmentsAgreeWithOne) {
  const std::vector<std::string> shared{"distribution.policy=multi_learner",
                                        "distribution.actors=2"};
  run_agent(kSmallPpo, folder_ / "single");
  run_agent(kSmallPpo, folder_ / "shared", shared);
  const auto rows = measured(folder_ / "single");
  const auto others = measured(folder_ / "shared");
  ASSERT_EQ(rows.size(), others.size());
  for (const char* key :
       {"loss", "value_loss", "grad_norm"}) {  // of the first two updates and more
    const double value = rows.front()[key].get<double>();
    EXPECT_NEAR(others.front()[key].get<double>(), value, 1e-5 * std::max(1.0, std::abs(value)));
  }
  // And they go on bit for bit.
  const std::atomic<bool> stop = true;
  run_agent(kSmallPpo, folder_ / "stopped", shared, real_files(), &stop);
  run_agent(kSmallPpo, folder_ / "stopped", shared);
  expect_same_run(folder_ / "shared", folder_ / "stopped");
}

// Every on-policy algorithm gets better at balancing.
TEST_F(AgentRun, Learns) {
  const auto last_return = [&](const std::string& type, std::vector<std::string> changes) {
    changes.insert(changes.begin(),
                   {"algorithm.type=" + type, "environment.num_envs=8", "network.hidden=[32]",
                    "eval.interval=none", "log.interval=100000", "checkpoint.interval=1000000"});
    YamlNode tree = parse_yaml(
        "algorithm: {}\nenvironment: {name: cartpole}\noptimizer: {clip_grad: 0.5}\n", "t");
    run_agent(to_yaml(tree), folder_ / type, changes);
    return measured(folder_ / type).back()["episode_return"].get<double>();
  };
  const std::string total = "schedule.total_env_steps=40000";
  const double enough = 45;  // a random policy: 22
  EXPECT_GT(last_return("ppo", {total, "algorithm.steps=32", "algorithm.epochs=10",
                                "algorithm.minibatches=1", "optimizer.lr=1e-3"}),
            enough);
  EXPECT_GT(last_return("a2c", {total, "optimizer.lr=2e-3"}), enough);
  EXPECT_GT(last_return("impala", {total, "optimizer.lr=2e-3", "algorithm.epochs=2"}), enough);
}

TEST_F(AgentRun, PpoSolvesCartPole) {
  if (kSanitized) {
    GTEST_SKIP() << "five seeds of a whole run: the plain build counts them";
  }
  const std::string shipped =
      real_files().read(join_path(MSTRAIN_SOURCE_DIR, "configs/ppo_cartpole.yaml"));
  for (int64_t seed = 1; seed <= repetitions(2, 5); ++seed) {
    const RunOutcome done =
        run_agent(shipped, folder_ / fmt::format("{}", seed), {fmt::format("run.seed={}", seed)});
    EXPECT_THAT(done.out, HasSubstr("eval.stop_at_return is reached")) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
