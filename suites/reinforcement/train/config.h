// The configuration of a run of reinforcement learning.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/optim/optimizer_config.h"
#include "core/train/metrics_file.h"
#include "core/train/sections.h"
#include "suites/reinforcement/algorithms/algorithm_config.h"
#include "suites/reinforcement/algorithms/network_config.h"
#include "suites/reinforcement/env/config.h"

namespace mstrain::reinforcement {

// The section `environment`: how many, and which.
struct EnvironmentsConfig {
  int64_t num_envs = 8;
  EnvConfig env;

  template <class V>
  void fields(V& v) {
    v("num_envs", num_envs, "environments that are stepped side by side, of all actors together",
      rule::at_least(1).at_most(1 << 20).elsewhere_called({"n_envs", "num_workers"}));
    env.fields(v);
  }
};

enum class Placement {
  kSingle,
  kSingleLearnerCoarse,
  kSingleLearnerFine,
  kEnvServers,
  kAsyncActors,
  kCentral,
  kMultiLearner,
  kDeviceOnly
};
inline constexpr const char* kPlacements[] = {
    "single",  "single_learner_coarse", "single_learner_fine", "env_servers", "async_actors",
    "central", "multi_learner",         "device_only"};

// The section `distribution`.
struct DistributionConfig {
  Placement policy = Placement::kSingle;
  AutoOr<int64_t> actors;
  int64_t max_staleness = 0;
  double timeout_s = 60;

  template <class V>
  void fields(V& v) {
    v("policy", policy, "where the algorithm's parts run: docs/reinforcement.md has a table",
      rule::one_of({kPlacements[0], kPlacements[1], kPlacements[2], kPlacements[3], kPlacements[4],
                    kPlacements[5], kPlacements[6], kPlacements[7]}));
    v("actors", actors,
      "threads of this process that share the policy, where it is of many and --ranks is not "
      "given; "
      "auto: two",
      rule::at_least(1).at_most(256));
    v("max_staleness", max_staleness,
      "central: updates between the parameters that a gradient is of and those that it changes; "
      "async_actors: between those that acted and those that learn from it, where actors run free; "
      "0: all in step",
      rule::at_least(0).at_most(64));
    v("timeout_s", timeout_s,
      "after which a part that keeps the others waiting is named, and the run ends",
      rule::positive());
  }
};

enum class RateShape { kConstant, kLinear, kCosine };

// The section `schedule`: length, and the learning rate over it.
struct EnvSchedule {
  RateShape type = RateShape::kConstant;
  int64_t total_env_steps = 100000;
  double min_lr_ratio = 0;

  template <class V>
  void fields(V& v) {
    v("type", type, "shape of the learning rate", rule::one_of({"constant", "linear", "cosine"}));
    v("total_env_steps", total_env_steps, "steps of all environments together, of the whole run",
      rule::at_least(1).at_most(1e15).elsewhere_called({"total_timesteps", "total_steps"}));
    v("min_lr_ratio", min_lr_ratio, "linear, cosine: lowest rate as a fraction of optimizer.lr",
      rule::at_least(0).at_most(1));
  }

  double lr_at(double peak, double progress) const;
};

// The section `checkpoint`.
struct EnvCheckpointConfig {
  AutoOr<int64_t> interval;
  double minutes = 5;
  int64_t keep = 3;
  Resume resume = Resume::kAuto;

  template <class V>
  void fields(V& v) {
    v("interval", interval,
      "steps of environments between two checkpoints; auto: by time, see minutes; the end has one "
      "besides",
      rule::at_least(1));
    v("minutes", minutes, "between two checkpoints, where interval is auto", rule::positive());
    v("keep", keep, "newest checkpoints to keep", rule::at_least(1));
    v("resume", resume, "auto: go on from the newest checkpoint; never: refuse where there is one",
      rule::one_of({"auto", "never"}));
  }
};

// The section `eval`.
struct EnvEvalConfig {
  NoneOr<int64_t> interval = 50000;
  int64_t episodes = 20;
  std::optional<double> stop_at_return;

  template <class V>
  void fields(V& v) {
    v("interval", interval,
      "steps of environments between two evaluations; the end has one besides; none: there are "
      "none",
      rule::at_least(1).elsewhere_called({"eval_freq"}));
    v("episodes", episodes,
      "of an evaluation, side by side, with the best action and random numbers of their own",
      rule::at_least(1).at_most(100000).elsewhere_called({"n_eval_episodes"}));
    v("stop_at_return", stop_at_return,
      "the run ends when an evaluation's mean return is as good; null: at total_env_steps");
  }
};

// The section `log`.
struct EnvLogConfig {
  int64_t interval = 5000;

  template <class V>
  void fields(V& v) {
    v("interval", interval, "steps of environments between two rows of metrics.jsonl",
      rule::at_least(1));
  }
};

// The section `sweep`: runs are compared by the returns of their evaluations.
struct AgentSweepConfig : SweepConfig {
  AgentSweepConfig() { metric = kEvalReturn; }
};

struct Config {
  RunConfig run;
  std::unique_ptr<AlgorithmConfig> algorithm;
  EnvironmentsConfig environment;
  NetworkConfig network;
  DistributionConfig distribution;
  OptimizerConfig optimizer;
  EnvSchedule schedule;
  MemoryConfig memory;
  EnvCheckpointConfig checkpoint;
  EnvEvalConfig eval;
  EnvLogConfig log;
  std::optional<AgentSweepConfig> sweep;

  template <class V>
  void fields(V& v) {
    v("run", run, "the run itself");
    v("algorithm", *algorithm, "how the agent learns");
    v("environment", environment, "what it acts in");
    v("network", network, "between observations and actions");
    v("distribution", distribution, "where the parts of the algorithm run");
    v("optimizer", optimizer, "update rule");
    v("schedule", schedule, "learning rate and length");
    v("memory", memory, "what the run may take");
    v("checkpoint", checkpoint, "saving and going on");
    v("eval", eval, "evaluation while training");
    v("log", log, "what is written down");
    v("sweep", sweep, "several runs that differ in some keys, instead of one");
  }
};

// What a configuration of this algorithm.type leaves out is as here. Throws ConfigError where there is no such algorithm.
Config usual_config(const YamlNode& tree);
// Throws ConfigError with file and line.
Config read_reinforcement(const YamlNode& tree);
// Throws ConfigError where training would not look at a key of `schedule`. What trained already is read all the same.
void check_env_schedule(const EnvSchedule& schedule, const YamlNode& tree);

}  // namespace mstrain::reinforcement
