// A training run from its configuration to its end, in its directory: begins or goes on, trains, evaluates, saves, reports.
#pragma once

#include <atomic>
#include <optional>

#include "core/train/evaluation.h"
#include "core/train/plan.h"
#include "core/train/run_directory.h"

namespace mstrain {

enum class Outcome { kFinished, kWasFinished, kInterrupted };

struct SessionResult {
  Outcome outcome = Outcome::kFinished;
  int64_t step = 0;
  std::optional<EvaluationRow> evaluation;  // this session's last one
  Params params;                            // at the end; empty where the run was finished before
};

// Called for a plan that does not fit; throws PlanError.
using Refuse = std::function<void(const RunPlan&, int64_t limit)>;

// `resolved` is the whole configuration, every default filled in. Throws ConfigError for keys that a run which goes on must
// not change, PlanError through `refuse`, IoError and Error. Whatever it throws, the newest checkpoint is intact.
SessionResult train(FileSystem& files, const TrainConfig& config, const YamlNode& resolved,
                    const TrainTask& task, const TrainData& data, const Refuse& refuse,
                    const std::atomic<bool>& stop);

// What a configuration says to run on.
Context make_context(const TrainConfig& config);

}  // namespace mstrain
