// Which runs a sweep has: a function of its configuration alone, so that a sweep that was killed goes on with the same ones.
#pragma once

#include "core/train/sections.h"

namespace mstrain {

// What a sweep is of: a run of so many steps, of whatever kind.
struct SweptRun {
  std::string name, directory;
  int64_t total_steps = 0;
  std::optional<int64_t> eval_interval;  // none: at its end alone
  MonitorMode better = MonitorMode::kAuto;
};
SweptRun swept_run(const TrainConfig& config);

struct SweepTrial {
  std::string id;                // "007": its folder's name
  std::vector<YamlNode> values;  // one for each of SweepConfig::keys
};

// The combinations of a grid, the last key changing fastest, or draws: the n-th is the same for any number of runs.
std::vector<SweepTrial> sweep_trials(const SweepConfig& config);

// `tree`, of one run with a sweep, as that of a trial: without the sweep, with the trial's values where they stand in the
// file, its name and its folder.
YamlNode tree_of(const YamlNode& tree, const SweepConfig& config, const SweepTrial& trial,
                 const std::string& name, const std::string& directory);

// "optimizer.lr 0.001  batch.global 8"
std::string describe(const SweepConfig& config, const SweepTrial& trial);

// After how many steps the runs of a halving are compared, ascending; the last is total_steps. Of other methods that
// alone. They are multiples of eval_interval.
std::vector<int64_t> sweep_rungs(const SweptRun& run, const SweepConfig& sweep);

// Throws ConfigError at the keys of `sweep` where it asks for what cannot be.
void check_sweep_config(const SweptRun& run, const SweepConfig& sweep, const YamlNode& tree);
// Likewise, where the run of `config` evaluates nothing, or does not train.
void check_sweep_config(const TrainConfig& config, const SweepConfig& sweep, const YamlNode& tree);

}  // namespace mstrain
