#include "suites/reinforcement/train/sweep.h"

#include "core/base/error.h"
#include "core/train/sweep.h"
#include "suites/reinforcement/train/config.h"

namespace mstrain::reinforcement {
namespace {

// Its configuration, and the sweep that refers to it.
struct AgentsSweep {
  YamlNode tree;
  Config config;
  YamlNode resolved;
  Sweep sweep;

  AgentsSweep(FileSystem& files, const YamlNode& given)
      : tree(given),
        config(checked(given)),
        resolved(write_config(config)),
        sweep(files, swept(config), *config.sweep, resolved) {
    for (const TrialResult& trial : sweep.trials()) {
      read_reinforcement(sweep.tree_of_trial(tree, trial.trial));
    }
  }
  AgentsSweep(const AgentsSweep&) = delete;
  AgentsSweep& operator=(const AgentsSweep&) = delete;

  static SweptRun swept(const Config& config) {
    SweptRun run{config.run.name,
                 config.run.directory(),
                 config.schedule.total_env_steps,
                 {},
                 MonitorMode::kMax};
    if (!config.eval.interval.is_word()) {
      run.eval_interval = *config.eval.interval.value;
    }
    return run;
  }
  static Config checked(const YamlNode& tree) {
    Config config = read_reinforcement(tree);
    check_sweep_config(swept(config), *config.sweep, tree);
    if (config.sweep->metric != kEvalReturn) {
      config_fail(tree, "sweep.metric", fmt::format("agents are compared by {}", kEvalReturn));
    }
    if (config.eval.interval.is_word()) {
      config_fail(tree, "eval.interval",
                  fmt::format("none, and sweep.metric: {} needs evaluations", kEvalReturn));
    }
    return config;
  }
};

}  // namespace

YamlNode first_of_agents_sweep(const RunRequest& request) {
  const AgentsSweep opened(request.files, request.tree);
  fmt::print(request.out, "{}", opened.sweep.describe_runs());
  return opened.sweep.tree_of_trial(opened.tree, opened.sweep.trials().front().trial);
}

Outcome sweep_agents(const RunRequest& request, const TrainUntil& train) {
  if (!request.start.changes.empty()) {
    throw ConfigError("--change: is for one run; begin a sweep anew with --restart");
  }
  AgentsSweep opened(request.files, request.tree);
  const SweepResult result = opened.sweep.run(
      [&](const SweepTrial& trial, int64_t until, const std::function<void()>& cleared) {
        return train(opened.sweep.tree_of_trial(opened.tree, trial), until, cleared);
      },
      request.stop, request.start.restart);
  fmt::print(request.out, "{}", opened.sweep.describe_result(result));
  if (result.interrupted) {
    return Outcome::kInterrupted;
  }
  opened.sweep.check_result(result);
  return Outcome::kFinished;
}

}  // namespace mstrain::reinforcement
