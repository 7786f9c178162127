// Sweeps: which runs there are, which of them go on, and that a sweep that died goes on where it stopped.
#include "core/train/sweep.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/yaml_scalar.h"
#include "core/train/report_data.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/one_section.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SweepConfig sweep_of(const std::string& yaml) { return section_of<SweepConfig>("sweep", yaml); }

std::vector<std::string> described(const SweepConfig& config) {
  std::vector<std::string> out;
  for (const SweepTrial& trial : sweep_trials(config)) {
    out.push_back(trial.id + ": " + describe(config, trial));
  }
  return out;
}

TEST(SweepTrials, AGridIsEveryCombination) {
  EXPECT_THAT(
      described(sweep_of("sweep: {keys: {optimizer.lr: [0.1, 0.2], batch: {global: [4, "
                         "8]}}}")),
      ElementsAre("000: optimizer.lr 0.1  batch.global 4", "001: optimizer.lr 0.1  batch.global 8",
                  "002: optimizer.lr 0.2  batch.global 4",
                  "003: optimizer.lr 0.2  batch.global 8"));
}

TEST(SweepTrials, DrawsLieInTheirRangesAndStayWhenThereAreMore) {
  const std::string keys =
      "keys: {optimizer.lr: {low: 1.0e-5, high: 0.1, scale: log}, model.layers: {low: 1, high: 3}, "
      "optimizer.beta: {low: 0.5, high: 1.5}, batch.global: [4, 8]}}";
  const SweepConfig few = sweep_of("sweep: {method: random, runs: 5, seed: 3, " + keys);
  const SweepConfig many = sweep_of("sweep: {method: random, runs: 400, seed: 3, " + keys);
  const auto all = sweep_trials(many);
  std::set<std::string> layers;
  int below = 0;
  for (const SweepTrial& trial : all) {
    const double lr = as_double(trial.values[0], "lr");
    EXPECT_GE(lr, 1e-5);
    EXPECT_LE(lr, 0.1);
    below += lr < 1e-3 ? 1 : 0;  // the middle of the exponents
    layers.insert(trial.values[1].text);
    EXPECT_GE(as_double(trial.values[2], "beta"), 0.5);
    EXPECT_LE(as_double(trial.values[2], "beta"), 1.5);
  }
  EXPECT_GT(below, 160);
  EXPECT_LT(below, 240);
  EXPECT_THAT(layers, ElementsAre("1", "2", "3"));
  const auto first = described(few);
  const auto longer = described(many);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), longer.begin()));
  SweepConfig other = few;
  other.seed = 4;
  EXPECT_NE(described(other), first);
}

TEST(SweepTrials, MistakesNameTheirKey) {
  const auto error = [](const std::string& yaml) {
    return message_of<ConfigError>([&] { sweep_of("sweep:\n  keys:\n    " + yaml); });
  };
  EXPECT_THAT(error("optimizer.lr: 0.1"),
              HasSubstr("test.yaml:3: sweep.keys.optimizer.lr: expected a list of values, {low"));
  EXPECT_THAT(error("optimizer.lr: {low: 1}"), HasSubstr("sweep.keys.optimizer.lr.high: required"));
  EXPECT_THAT(error("a.b: {low: 2, high: 1}"), HasSubstr("low 2 is not below high 1"));
  EXPECT_THAT(error("a.b: {low: 0, high: 1, scale: log}"), HasSubstr("begins above 0"));
  EXPECT_THAT(error("a.b: {low: 0, high: 1, scale: lgo}"), HasSubstr("log"));
  EXPECT_THAT(error("run.output_dir: [a, b]"), HasSubstr("not for a sweep to vary"));
  EXPECT_THAT(error("{a.b: [1], a: {b: [2]}}"), HasSubstr("named twice"));
  EXPECT_THAT(error("a.b: null"),
              HasSubstr("sweep.keys: null of all that there is varies nothing; sweep: null"));
  const auto check = [](const std::string& yaml, const auto& change) {
    TrainConfig config;
    change(config);
    const YamlNode tree = parse_yaml(yaml, "test.yaml");
    return message_of<ConfigError>([&] { check_sweep_config(config, sweep_of(yaml), tree); });
  };
  const auto as_is = [](TrainConfig&) {};
  EXPECT_THAT(check("sweep:\n  keys: {a.b: {low: 0, high: 1}}", as_is),
              HasSubstr("test.yaml:2: sweep.keys.a.b: is a range, but a grid is made of lists"));
  EXPECT_THAT(check("sweep: {method: random, keys: {a.b: [1]}}", as_is), HasSubstr("sweep.runs"));
  EXPECT_THAT(check("sweep: {keys: {a.b: [1]}, metric: eval_los}", as_is),
              HasSubstr("did you mean eval_loss?"));
  EXPECT_THAT(check("sweep: {keys: {eval: {batches: [1, 2]}}}", as_is),
              HasSubstr("sweep.keys: eval.batches changes what is measured"));
  EXPECT_THAT(check("sweep: {keys: {a.b: [1]}}", [](TrainConfig& c) { c.eval.interval = {}; }),
              HasSubstr("needs evaluations"));
  EXPECT_THAT(check("sweep: {method: halving, keys: {a.b: [1]}, first_steps: 1000000}", as_is),
              HasSubstr("sweep.first_steps: expected less than the "));
  EXPECT_THAT(check("sweep: {method: halving, keys: {a.b: [1]}, first_steps: 7}", as_is),
              HasSubstr("no multiple of eval.interval 250"));
  EXPECT_THAT(check("sweep: {method: halving, keys: {eval: {interval: [1, 2]}}}", as_is),
              HasSubstr("sweep.keys: eval.interval says where runs of a halving can be compared"));
}

TEST(SweepTrials, TheCommandLineOverridesKeysOfTheFileAndTakesThemBack) {
  YamlNode tree = parse_yaml(
      "sweep: {keys: {optimizer.lr: [1, 2], a.b: {low: 0, high: 1}, batch: {global: [4]}}}",
      "test.yaml");
  apply_overrides(tree, std::vector<std::string>{"sweep.keys.optimizer.lr=[3]",
                                                 "sweep.keys.batch.global=[5, 6]",
                                                 "sweep={keys: {a.b: null}}"});
  EXPECT_THAT(
      described(sweep_of(to_yaml(tree))),
      ElementsAre("000: optimizer.lr 3  batch.global 5", "001: optimizer.lr 3  batch.global 6"));
  EXPECT_EQ(config_where(tree, "sweep.keys.optimizer.lr"), "command line: sweep.keys.optimizer.lr");
}

struct NamedFinder {
  RunConfig run;
  FindLrConfig find_lr;
  template <class V>
  void fields(V& v) {
    v("run", run, "");
    v("find_lr", find_lr, "");
  }
};

TEST(SweepTrials, ANullTakesBackWhatTheFileSays) {
  const YamlNode tree = parse_yaml("find_lr: {steps: 30}\n", "test.yaml");
  const SweepConfig config = sweep_of("sweep: {keys: {find_lr.steps: [null, 40]}}");
  const auto steps = [&](size_t trial) {
    NamedFinder read;
    read_config(tree_of(tree, config, sweep_trials(config)[trial], "x", "out/x"), read);
    return read.find_lr.steps;
  };
  EXPECT_EQ(steps(0), FindLrConfig().steps);
  EXPECT_EQ(steps(1), 40);
}

TEST(SweepTrials, ATrialIsTheConfigurationWithItsValues) {
  const YamlNode tree = parse_yaml(
      "optimizer: {lr: 1, eps: 2}\nsweep:\n  keys:\n    optimizer.lr: [3, 4]\n    batch.size: "
      "[5]\n",
      "test.yaml");
  const SweepConfig config = sweep_of("sweep: {keys: {optimizer.lr: [3, 4], batch.size: [5]}}");
  const YamlNode trial = tree_of(tree, config, sweep_trials(config)[1], "x-001", "out/x/runs/001");
  EXPECT_EQ(to_flow(trial),
            "{optimizer: {lr: 4, eps: 2}, batch: {size: 5}, run: {name: x-001, output_dir: "
            "out/x/runs/001}}");
}

TEST(SweepTrials, AHalvingComparesAtMultiplesOfTheEvaluations) {
  TrainConfig config;
  config.schedule.total_steps = 900;
  config.eval.interval = 50;
  SweepConfig sweep = sweep_of("sweep: {method: halving, keys: {a.b: [1]}}");
  EXPECT_THAT(sweep_rungs(swept_run(config), sweep), ElementsAre(100, 300, 900));
  sweep.first_steps = 50;
  sweep.factor = 4;
  EXPECT_THAT(sweep_rungs(swept_run(config), sweep), ElementsAre(50, 200, 800, 900));
  sweep.first_steps = 300;
  sweep.factor = 3;
  EXPECT_THAT(sweep_rungs(swept_run(config), sweep), ElementsAre(300, 900));
  sweep.first_steps = 2;
  sweep.factor = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(sweep_rungs(swept_run(config), sweep), ElementsAre(2, 900));
  sweep.method = SweepMethod::kRandom;
  EXPECT_THAT(sweep_rungs(swept_run(config), sweep), ElementsAre(900));
}

TEST(SweepTrials, AHalvingComparesThreeTimesWhereEvaluationsAllow) {
  const auto rungs = [](int64_t total, std::optional<int64_t> interval, const char* factor) {
    const SweepConfig sweep =
        sweep_of("sweep: {method: halving, keys: {a.b: [1]}, factor: " + std::string(factor) + "}");
    const SweptRun run{.total_steps = total, .eval_interval = interval};
    testing::internal::CaptureStderr();
    check_sweep_config(run, sweep, parse_yaml("sweep: {method: halving}", "test.yaml"));
    const std::vector<int64_t> out = sweep_rungs(run, sweep);
    EXPECT_EQ(testing::internal::GetCapturedStderr().find("can at step") != std::string::npos,
              out.size() < 3)
        << total;
    return out;
  };
  EXPECT_THAT(rungs(54, 20, "3"), ElementsAre(20, 40, 54));
  EXPECT_THAT(rungs(54, 18, "3"), ElementsAre(18, 36, 54));
  EXPECT_THAT(rungs(1000, 50, "3"), ElementsAre(100, 300, 1000));  // and not at 900, too
  EXPECT_THAT(rungs(1000, 50, "9223372036854775807"), ElementsAre(50, 100, 1000));
  EXPECT_THAT(rungs(41, 20, "3"), ElementsAre(20, 40, 41));
  EXPECT_THAT(rungs(40, 20, "3"), ElementsAre(20, 40));
  EXPECT_THAT(rungs(20, 20, "3"), ElementsAre(20));
  EXPECT_THAT(rungs(20, {}, "3"), ElementsAre(20));
}

// Sweeps over the learning rate of the small task.
class SweepRuns : public Fit {
 protected:
  struct Died {};

  TrainConfig base(const std::string& name, const std::string& sweep) const {
    TrainConfig config = small_config(folder_ / name);
    config.eval.interval = 2;
    config.schedule.total_steps = 8;
    config.schedule.warmup_steps = 0;
    config.sweep = sweep_of(sweep);
    return config;
  }

  // Notes which runs train up to where, and dies, as kill -9 does, at the batch `die_at` of the run `die_in`.
  SweepResult sweep(const TrainConfig& config, const std::string& die_in = "",
                    bool restart = false) {
    const YamlNode whole = resolved(config);
    Sweep sweep(*files_, swept_run(config), *config.sweep, whole);
    return sweep.run(
        [&](const SweepTrial& trial, int64_t until, const std::function<void()>& cleared) {
          trained_.push_back(trial.id + " to " + std::to_string(until));
          TrainConfig one = config;
          one.sweep.reset();
          one.optimizer.lr = as_double(trial.values[0], "lr");
          one.run.output_dir = sweep.directory_of(trial);
          if (trial.id == fewer_) {
            one.eval.batches = 1;
          }
          if (trial.id == too_large_) {
            one.memory.limit_gb = 1e-9;
          }
          SessionStart start;
          start.restart = cleared != nullptr;
          start.cleared = cleared;
          const auto die = [&](int64_t sample) {
            if (trial.id == die_in && sample == 5 * 8) {
              throw Died();
            }
          };
          StopAtStep stop_there(until);
          static const std::atomic<bool> never = false;
          const SessionResult result = train(
              *files_, one, resolved(one), small_task(0), small_data(die),
              [](const RunPlan& plan, int64_t limit) { throw PlanError(refusal(plan, limit, {})); },
              never, {&stop_there}, start);
          if (trial.id == fails_ && until == 1) {
            has_failed(trial.id);
            fail("the disk is full");
          }
          return result.outcome;
        },
        never_, restart);
  }

  // What a run of the sweep "failed" leaves that fails at the checkpoint after an evaluation.
  void has_failed(const std::string& id) {
    const std::string path = folder_ / ("failed/runs/" + id + "/run.json");
    Json run = parse_json(real_files().read(path), path);
    run["status"] = "failed";
    write_file_atomic(real_files(), path, run.dump());
  }

  const std::atomic<bool> never_ = false;
  FileSystem* files_ = &real_files();
  std::string fails_;      // the run that fails at step 1
  std::string too_large_;  // the run that no memory holds
  std::string fewer_;      // the run that measures fewer predictions
  std::vector<std::string> trained_;
};

TEST_F(SweepRuns, ResultsOverDifferentNumbersOfPredictionsAreWarnedOf) {
  sweep(base("same", "sweep: {keys: {optimizer.lr: [0.01, 0.02]}}"));
  EXPECT_THAT(warnings_, ElementsAre());
  fewer_ = "001";
  sweep(base("other", "sweep: {keys: {optimizer.lr: [0.01, 0.02]}}"));
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("means over different numbers of predictions, 8 to 16: by")));
}

TEST_F(SweepRuns, TheBestOfAGridIsToldAndReported) {
  const TrainConfig config = base("grid", "sweep: {keys: {optimizer.lr: [1.0e-6, 0.05, 0.01]}}");
  const SweepResult result = sweep(config);
  EXPECT_THAT(trained_, ElementsAre("000 to 8", "001 to 8", "002 to 8"));
  ASSERT_TRUE(result.best.has_value());
  EXPECT_EQ(*result.best, 1U);
  for (const TrialResult& trial : result.trials) {
    EXPECT_EQ(trial.status, "finished");
    EXPECT_EQ(trial.step, 8);
  }
  const Json json = parse_json(real_files().read(folder_ / "grid/sweep.json"), "sweep.json");
  EXPECT_EQ(json["best"], "001");
  EXPECT_EQ(json["status"], "finished");
  EXPECT_EQ(json["runs"][2]["values"]["optimizer.lr"], 0.01);
  EXPECT_EQ(json["runs"][2]["value"], *result.trials[2].value);
  EXPECT_THAT(real_files().read(folder_ / "grid/report.html"), HasSubstr("\"best\":\"001\""));
}

TEST_F(SweepRuns, ASweepThatDiedGoesOnInTheMiddleOfARun) {
  const std::string yaml = "sweep: {keys: {optimizer.lr: [0.01, 0.02, 0.03]}}";
  const SweepResult straight = sweep(base("straight", yaml));
  trained_.clear();
  const TrainConfig config = base("died", yaml);
  EXPECT_THROW(sweep(config, "001"), Died);
  EXPECT_THAT(trained_, ElementsAre("000 to 8", "001 to 8"));
  trained_.clear();
  const SweepResult result = sweep(config);
  EXPECT_THAT(trained_, ElementsAre("001 to 8", "002 to 8"));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result.trials[i].value, straight.trials[i].value);
    expect_same_run(folder_ / ("straight/runs/00" + std::to_string(i)),
                    folder_ / ("died/runs/00" + std::to_string(i)), 8);
  }
  trained_.clear();
  EXPECT_EQ(sweep(config).best, result.best);
  EXPECT_THAT(trained_, ElementsAre());
}

TEST_F(SweepRuns, AHalvingGoesOnWithTheBetterOnes) {
  const std::string yaml =
      "sweep: {method: halving, first_steps: 2, factor: 2, keys: {optimizer.lr: [1.0e-6, 0.01, "
      "1.0e-5, 0.02]}}";
  const TrainConfig config = base("halving", yaml);
  const SweepResult result = sweep(config);
  EXPECT_THAT(trained_, ElementsAre("000 to 2", "001 to 2", "002 to 2", "003 to 2", "001 to 4",
                                    "003 to 4", testing::EndsWith(" to 8")));
  EXPECT_EQ(result.trials[0].status, "left behind");
  EXPECT_EQ(result.trials[0].step, 2);
  EXPECT_EQ(
      parse_json(real_files().read(folder_ / "halving/runs/000/run.json"), "run.json")["status"],
      "left behind");
  EXPECT_EQ(result.trials[*result.best].step, 8);
  // What went on is the run that never stopped.
  const size_t best = *result.best;
  TrainConfig alone = base("alone", yaml);
  alone.sweep.reset();
  alone.optimizer.lr = best == 1 ? 0.01 : 0.02;
  run_small(alone, real_files(), small_data(), small_task(0));
  EXPECT_EQ(timeless_metrics(folder_ / "alone"),
            timeless_metrics(folder_ / ("halving/runs/00" + std::to_string(best))));
  trained_.clear();
  EXPECT_EQ(sweep(config).best, result.best);
  EXPECT_THAT(trained_, ElementsAre());
}

TEST_F(SweepRuns, AFailedRunHasNoResultAndTheOthersGoOn) {
  const SweepResult result =
      sweep(base("failing", "sweep: {keys: {optimizer.lr: [0.01, 1.0e+300, 0.02]}}"));
  EXPECT_EQ(result.trials[1].status, "failed");
  EXPECT_THAT(result.trials[1].reason, HasSubstr("step "));
  EXPECT_EQ(result.trials[1].value, std::nullopt);
  EXPECT_TRUE(result.trials[2].value.has_value());
}

// Also where that is the last thing that a run writes.
TEST_F(SweepRuns, NothingIsLostWhereverTheDiskFails) {
  const auto of = [&](const std::string& name) {
    TrainConfig config = base(name, "sweep: {keys: {optimizer.lr: [0.01]}}");
    config.schedule.total_steps = 2;
    return config;
  };
  const SweepResult straight = sweep(of("straight"));
  const TrainConfig config = of("failing");
  FaultyFiles faulty(real_files());
  for (const bool dies : {false, true}) {  // there, or goes on
    for (int64_t n = 0;; n += 5) {
      real_files().remove_all(config.run.directory());
      faulty.reset(dies ? Faults{.power_off_operation = n} : Faults{.fail_operation = n});
      files_ = &faulty;
      try {
        sweep(config);
      } catch (const IoError&) {
      }
      files_ = &real_files();
      if (faulty.operations() <= n) {
        EXPECT_GT(n, 50);
        break;
      }
      const SweepResult result = sweep(config);
      ASSERT_EQ(result.trials[0].status, "finished") << n;
      EXPECT_EQ(result.trials[0].value, straight.trials[0].value);
      expect_same_run(folder_ / "straight/runs/000", folder_ / "failing/runs/000", 2);
    }
  }
}

TEST_F(SweepRuns, AHalvingGoesOnWithoutARunThatMeasuresNoNumber) {
  TrainConfig config = base("nan",
                            "sweep: {method: halving, first_steps: 1, factor: 8, keys: "
                            "{optimizer.lr: [0.01, 1.0e+30, 0.02]}}");
  config.eval.interval = 1;
  for (const bool again : {false, true}) {
    trained_.clear();
    const SweepResult result = sweep(config);
    EXPECT_FALSE(result.interrupted);
    EXPECT_EQ(result.trials[1].status, "left behind");
    EXPECT_EQ(result.trials[1].value, std::nullopt);
    ASSERT_TRUE(result.best.has_value());
    EXPECT_EQ(result.trials[*result.best].step, 8);
    if (again) {
      EXPECT_THAT(trained_, ElementsAre());
    } else {
      EXPECT_THAT(trained_, ElementsAre("000 to 1", "001 to 1", "002 to 1", HasSubstr(" to 8")));
    }
  }
}

// It had measured what it is compared by, and failed at the checkpoint after that.
TEST_F(SweepRuns, AHalvingLeavesARunBehindThatFailedWhereItIsCompared) {
  TrainConfig config = base("failed",
                            "sweep: {method: halving, first_steps: 1, factor: 2, keys: "
                            "{optimizer.lr: [0.02, 1.0e-6, 1.0e+30]}}");
  config.eval.interval = 1;
  sweep(config);
  for (const char* id : {"001", "002"}) {
    has_failed(id);
  }
  const SweepResult result = sweep(config);
  EXPECT_EQ(result.trials[1].status, "left behind");
  EXPECT_EQ(result.trials[2].status, "left behind");
}

// The next start finds what it had measured, and must not decide otherwise.
TEST_F(SweepRuns, AHalvingGoesOnWithARunThatFailedOnceItHadMeasuredWhatItIsComparedBy) {
  TrainConfig config = base("failed",
                            "sweep: {method: halving, first_steps: 1, factor: 8, keys: "
                            "{optimizer.lr: [0.02, 1.0e-6, 2.0e-6]}}");
  config.eval.interval = 1;
  fails_ = "000";
  for (const bool again : {false, true}) {
    trained_.clear();
    const SweepResult result = sweep(config);
    EXPECT_EQ(result.best, 0U);
    EXPECT_EQ(result.trials[0].status, "finished");
    EXPECT_EQ(trained_,
              again ? std::vector<std::string>()
                    : (std::vector<std::string>{"000 to 1", "001 to 1", "002 to 1", "000 to 8"}));
  }
}

TEST_F(SweepRuns, AnotherSweepInTheSameFolderIsRefusedUntilItBeginsAnew) {
  sweep(base("run", "sweep: {method: random, runs: 1, keys: {optimizer.lr: [0.01]}}"));
  TrainConfig alone = base("run", "sweep: {keys: {optimizer.lr: [0.02]}}");
  alone.sweep.reset();
  EXPECT_THAT(message_of<ConfigError>([&] { run_small(alone); }), HasSubstr("holds a sweep"));
  const TrainConfig other = base("run", "sweep: {keys: {optimizer.lr: [0.02]}}");
  EXPECT_THAT(message_of<ConfigError>([&] { sweep(other); }),
              HasSubstr("this sweep began with other values"));
  trained_.clear();
  sweep(base("run", "sweep: {method: random, runs: 2, keys: {optimizer.lr: [0.01]}}"));
  EXPECT_THAT(trained_, ElementsAre("001 to 8"));
  trained_.clear();
  sweep(other, "", /*restart=*/true);
  EXPECT_THAT(trained_, ElementsAre("000 to 8"));
}

TEST_F(SweepRuns, WhatAnEarlierOneWroteStaysUntilARunOfTheNewOneBegins) {
  sweep(base("run", "sweep: {keys: {optimizer.lr: [0.01, 0.02, 0.03]}}"));
  const std::string before = real_files().read(folder_ / "run/sweep.json");
  const TrainConfig one = base("run", "sweep: {keys: {optimizer.lr: [0.04]}}");
  too_large_ = "000";
  EXPECT_THROW(sweep(one, "", /*restart=*/true), PlanError);
  EXPECT_EQ(real_files().read(folder_ / "run/sweep.json"), before);
  EXPECT_TRUE(is_run_directory(real_files(), folder_ / "run/runs/002"));
  // The second of two begins: it goes on alone, as a sweep that died.
  const TrainConfig two = base("run", "sweep: {keys: {optimizer.lr: [0.04, 0.05]}}");
  EXPECT_THROW(sweep(two, "001", /*restart=*/true), Died);
  EXPECT_THAT(real_files().list(folder_ / "run/runs"), ElementsAre("001"));
  too_large_.clear();
  trained_.clear();
  const SweepResult result = sweep(two);
  EXPECT_THAT(trained_, ElementsAre("000 to 8", "001 to 8"));
  EXPECT_TRUE(result.best.has_value());
}

}  // namespace
}  // namespace mstrain
