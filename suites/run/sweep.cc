#include "suites/run/sweep.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/comm/communicator.h"
#include "core/train/rank_talk.h"
#include "core/train/sweep.h"
#include "suites/run/stored_model.h"
#include "suites/run/sweep_ranks.h"

namespace mstrain {
namespace {

// A sweep with everything that its parts refer to.
struct OpenedSweep {
  YamlNode tree;
  std::unique_ptr<ModelRun> run;
  const TrainConfig& config;
  YamlNode resolved;
  Sweep sweep;

  OpenedSweep(FileSystem& files, const YamlNode& given)
      : tree(given),
        run(checked(files, given)),
        config(run->train),
        resolved(run->written()),
        sweep(files, swept_run(config), *config.sweep, resolved,
              [&files](const YamlNode& before) { return resolved_config(files, before); }) {}
  OpenedSweep(const OpenedSweep&) = delete;
  OpenedSweep& operator=(const OpenedSweep&) = delete;

  static std::unique_ptr<ModelRun> checked(FileSystem& files, const YamlNode& tree) {
    std::unique_ptr<ModelRun> run = read_run(with_stored_model(files, tree));
    check_sweep_config(run->train, *run->train.sweep, tree);
    return run;
  }
  YamlNode tree_of_trial(const SweepTrial& trial) const { return sweep.tree_of_trial(tree, trial); }
};

// A value that does not do is told before anything runs.
void check_trials(const RunRequest& request, const OpenedSweep& opened) {
  for (const TrialResult& trial : opened.sweep.trials()) {
    try {
      read_run(with_stored_model(request.files, opened.tree_of_trial(trial.trial)));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}; so in run {} of the sweep: {}", error.what(),
                                    trial.trial.id, describe(*opened.config.sweep, trial.trial)));
    }
  }
}

}  // namespace

bool is_sweep(const YamlNode& tree) {
  const YamlNode* sweep = tree.find("sweep");
  return sweep != nullptr && !sweep->is_null();
}

void check_sweep_ranks(FileSystem& files, const YamlNode& tree, int64_t ranks) {
  const OpenedSweep opened(files, tree);
  for (const SweepKey& key : opened.config.sweep->keys) {
    for (const std::string_view place :
         {"data", "tensor", "context", "pipeline", "plan", "timeout_s"}) {
      if (key.key == fmt::format("parallel.{}", place)) {
        config_fail(tree, "sweep.keys",
                    fmt::format("{} is one for all runs: the {} ranks take their places once; give "
                                "it under parallel",
                                key.key, ranks));
      }
    }
  }
  for (const TrialResult& trial : opened.sweep.trials()) {
    check_many_ranks(files, opened.tree_of_trial(trial.trial), ranks);
  }
}

YamlNode first_of_sweep(const RunRequest& request) {
  const OpenedSweep opened(request.files, request.tree);
  check_trials(request, opened);
  try {
    opened.sweep.check_same(request.start.restart);
  } catch (const ConfigError& error) {
    log_warning("{}", error.what());
  }
  fmt::print(request.out, "{}", opened.sweep.describe_runs());
  return opened.tree_of_trial(opened.sweep.trials().front().trial);
}

Outcome run_sweep(const RunRequest& request) {
  if (!request.start.changes.empty()) {
    throw ConfigError("--change: is for one run; begin a sweep anew with --restart");
  }
  OpenedSweep opened(request.files, request.tree);
  check_trials(request, opened);
  const std::vector<TrialResult>& trials = opened.sweep.trials();
  std::function<void()> cleared = request.start.cleared;
  SweepRanks ranks(request.start.ranks.get(), [&](size_t trial, int64_t until, bool restart) {
    SessionStart start = request.start;
    start.restart = restart;
    start.cleared = restart ? cleared : nullptr;
    const RunRequest one{
        request.files, with_stored_model(request.files, opened.tree_of_trial(trials[trial].trial)),
        request.stop, request.out, std::move(start)};
    StopAtStep stop_there(until);
    return train_model(one, {&stop_there}).outcome;
  });
  if (!is_first(request.start.ranks.get())) {
    return ranks.follow();
  }
  bool has_begun = !request.start.restart;
  const auto run = [&](const SweepTrial& trial, int64_t until, const std::function<void()>& begun) {
    const auto found = std::find_if(trials.begin(), trials.end(),
                                    [&](const TrialResult& it) { return it.trial.id == trial.id; });
    cleared = [&] {
      has_begun = true;
      begun();
      if (request.start.cleared != nullptr) {
        request.start.cleared();
      }
    };
    return ranks.train(static_cast<size_t>(found - trials.begin()), until, begun != nullptr);
  };
  const SweepResult result = [&] {
    try {
      return opened.sweep.run(run, request.stop, request.start.restart,
                              [&](const std::function<void()>& work) { ranks.aside(work); });
    } catch (const CommError&) {
      throw;
    } catch (const Error&) {
      if (!has_begun) {
        ranks.end(Outcome::kFinished);  // the others wait for the next run
      }
      throw;
    }
  }();
  ranks.end(result.interrupted ? Outcome::kInterrupted : Outcome::kFinished);
  fmt::print(request.out, "{}", opened.sweep.describe_result(result));
  if (result.interrupted) {
    return Outcome::kInterrupted;
  }
  opened.sweep.check_result(result);
  return Outcome::kFinished;
}

}  // namespace mstrain
