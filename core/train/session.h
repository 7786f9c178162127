// A training run from its configuration to its end, in its directory: begins or goes on, trains, evaluates, saves, reports.
#pragma once

#include <atomic>
#include <optional>

#include "core/schedule/timeline.h"
#include "core/train/evaluation.h"
#include "core/train/planned_run.h"
#include "core/train/run_directory.h"
#include "core/train/saver.h"

namespace mstrain {

enum class Outcome { kFinished, kWasFinished, kInterrupted };

struct SessionResult {
  Outcome outcome = Outcome::kFinished;
  int64_t step = 0;
  std::optional<EvaluationRow> evaluation;  // this session's last one
  std::vector<Continuation> samples;        // the last ones
  // At the end; empty where the run was finished before, and where ranks keep parts of them, or stages.
  Params params;
  std::string end_reason;           // where a callback ended the run
  std::optional<int64_t> restored;  // the step whose weights the run ended with
  std::optional<Saver::Best> best;  // of checkpoint.best
};

// What the run's ranks do in a step of micro-batches of `micro`, as planned for this machine: on rank 0, where there is a plan. Every rank
// calls it, in the run's context.
using PlannedStep = std::function<std::optional<Timeline>(const Context& context, int64_t micro)>;

// How a run is started, besides its configuration.
struct SessionStart {
  std::vector<std::string>
      changes;  // keys whose values may differ from those that the run had so far (Changing::kOnRequest)
  bool restart = false;  // what an earlier run wrote is removed, once the first batch is read
  std::function<void()>
      cleared;  // called then, where it is set: on the first rank, then on the others
  // The configuration that an earlier version wrote down, with the defaults of keys that came since; null: as it is.
  std::function<YamlNode(const YamlNode&)> with_defaults;
  std::vector<std::string> command;  // for run.json
  std::shared_ptr<Ranks> ranks;      // with whom the run is shared; null: alone
  PlannedStep planned_step;          // for a profile of many ranks
};

// Called for a plan that does not fit; throws PlanError.
using Refuse = std::function<void(const RunPlan&, int64_t limit)>;

// `resolved` is the whole configuration, every default filled in. Throws ConfigError for keys that a run which goes on must
// not change and for monitors of what is not measured, PlanError through `refuse`, IoError and Error. Whatever it throws,
// the newest checkpoint is intact. Every rank calls it with the same arguments; the first one writes the directory. `more` are told before the checkpoint is written; those with a name have state in checkpoints.
SessionResult train(FileSystem& files, const TrainConfig& config, const YamlNode& resolved,
                    const TrainTask& task, const TrainData& data, const Refuse& refuse,
                    const std::atomic<bool>& stop, const std::vector<Callback*>& more = {},
                    const SessionStart& start = {});

// What a configuration says to run on. Throws Error where this build has no such device (core/train/run_device.h).
Context make_context(const TrainConfig& config, std::shared_ptr<Ranks> ranks = nullptr);

}  // namespace mstrain
