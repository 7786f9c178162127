#include "core/train/sweep_trials.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/rng.h"

namespace mstrain {
namespace {

constexpr int64_t kMostRuns = 10000;

// The first that is a range; null where all are lists.
const SweepKey* first_range(const SweepConfig& config) {
  const auto found =
      std::ranges::find_if(config.keys, [](const SweepKey& key) { return key.values.empty(); });
  return found == config.keys.end() ? nullptr : &*found;
}

int64_t combinations(const SweepConfig& config) {
  int64_t count = 1;
  for (const SweepKey& key : config.keys) {
    count = std::min(kMostRuns + 1, count * static_cast<int64_t>(key.values.size()));
  }
  return count;
}

bool is_grid(const SweepConfig& config) {
  return config.method == SweepMethod::kGrid ||
         (config.method == SweepMethod::kHalving && !config.runs);
}

std::vector<YamlNode> combination(const SweepConfig& config, int64_t index) {
  std::vector<YamlNode> out(config.keys.size());
  for (size_t i = config.keys.size(); i-- > 0;) {
    const std::vector<YamlNode>& values = config.keys[i].values;
    const auto count = static_cast<int64_t>(values.size());
    out[i] = values[static_cast<size_t>(index % count)];
    index /= count;
  }
  return out;
}

YamlNode drawn_number(const SweepKey& key, double share) {
  // An integer's bounds are drawn as often as the numbers between them.
  const double low = key.is_integer ? key.low - 0.5 : key.low;
  const double high = key.is_integer ? key.high + 0.5 : key.high;
  const double value = key.is_log ? std::exp(std::log(low) + share * std::log(high / low))
                                  : low + share * (high - low);
  if (key.is_integer) {
    return YamlNode::integer(
        static_cast<int64_t>(std::clamp(std::round(value), key.low, key.high)));
  }
  // Digits that a person can type again.
  return YamlNode::number(std::clamp(std::stod(fmt::format("{:.4g}", value)), key.low, key.high));
}

std::vector<YamlNode> draw(const SweepConfig& config, int64_t index) {
  std::vector<YamlNode> out;
  for (const SweepKey& key : config.keys) {
    const uint64_t stream = hash_bytes(key.key, static_cast<uint64_t>(index)).lo;
    const double share = to_unit_double(Rng(static_cast<uint64_t>(config.seed), stream).next_u64());
    if (key.values.empty()) {
      out.push_back(drawn_number(key, share));
    } else {
      const auto at = static_cast<size_t>(share * static_cast<double>(key.values.size()));
      out.push_back(key.values[at]);
    }
  }
  return out;
}

// Comparisons of a halving where first_steps is not given.
constexpr size_t kComparisons = 3;

// Between the last two a run goes on for `factor` times as many steps, and so before; rounded down to evaluations, of which there
// may be too few.
std::vector<int64_t> chosen_rungs(int64_t total, int64_t interval, int64_t factor) {
  const int64_t evaluations = (total - 1) / interval;  // before the end
  if (evaluations < 2) {
    return evaluations == 1 ? std::vector{interval, total} : std::vector{total};
  }
  const int64_t second = std::max<int64_t>(2, total / factor / interval);
  const int64_t first = std::clamp<int64_t>(total / factor / factor / interval, 1, second - 1);
  return {first * interval, second * interval, total};
}

}  // namespace

std::vector<SweepTrial> sweep_trials(const SweepConfig& config) {
  const bool grid = is_grid(config);
  const int64_t count = grid ? combinations(config) : config.runs.value_or(0);
  std::vector<SweepTrial> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back({fmt::format("{:03}", i), grid ? combination(config, i) : draw(config, i)});
  }
  return out;
}

YamlNode tree_of(const YamlNode& tree, const SweepConfig& config, const SweepTrial& trial,
                 const std::string& name, const std::string& directory) {
  YamlNode out = tree;
  std::erase_if(out.children, [](const YamlNode& child) { return child.key == "sweep"; });
  for (size_t i = 0; i < config.keys.size(); ++i) {
    set_config(out, config.keys[i].key, trial.values[i]);
  }
  set_config(out, "run.name", YamlNode::string(name));
  set_config(out, "run.output_dir", YamlNode::string(directory));
  return out;
}

std::string describe(const SweepConfig& config, const SweepTrial& trial) {
  std::string out;
  for (size_t i = 0; i < config.keys.size(); ++i) {
    out += fmt::format("{}{} {}", i == 0 ? "" : "  ", config.keys[i].key, to_flow(trial.values[i]));
  }
  return out;
}

SweptRun swept_run(const TrainConfig& config) {
  SweptRun run{config.run.name, config.run.directory(), config.schedule.total_steps, {}};
  if (!config.eval.interval.is_word()) {
    run.eval_interval = *config.eval.interval.value;
  }
  return run;
}

std::vector<int64_t> sweep_rungs(const SweptRun& run, const SweepConfig& sweep) {
  const int64_t total = run.total_steps;
  if (sweep.method != SweepMethod::kHalving) {
    return {total};
  }
  if (!sweep.first_steps) {
    return chosen_rungs(total, run.eval_interval.value_or(total), sweep.factor);
  }
  std::vector<int64_t> out;
  for (int64_t steps = *sweep.first_steps; steps < total;) {
    out.push_back(steps);
    steps = steps > total / sweep.factor ? total : steps * sweep.factor;
  }
  out.push_back(total);
  return out;
}

void check_sweep_config(const TrainConfig& config, const SweepConfig& sweep, const YamlNode& tree) {
  if (!config.eval.evaluates()) {
    config_fail(tree, "sweep.metric",
                fmt::format("{} needs evaluations: give eval.interval", sweep.metric));
  }
  for (const SweepKey& key : sweep.keys) {
    if (key.key == "eval.batches") {
      config_fail(tree, "sweep.keys",
                  "eval.batches changes what is measured, and runs are compared by that; give it "
                  "under eval");
    }
  }
  if (config.run.mode != RunMode::kTrain) {
    config_fail(tree, "sweep", "runs of a sweep train: say run.mode: train");
  }
  check_monitor(tree, "sweep.metric", sweep.metric);
  check_sweep_config(swept_run(config), sweep, tree);
}

void check_sweep_config(const SweptRun& run, const SweepConfig& sweep, const YamlNode& tree) {
  if (const SweepKey* const range = first_range(sweep); is_grid(sweep) && range != nullptr) {
    const std::string path = "sweep.keys." + range->key;
    if (sweep.method == SweepMethod::kGrid) {
      config_fail(tree, path,
                  "is a range, but a grid is made of lists; draw from ranges with method random");
    }
    config_fail(tree, "sweep.runs",
                fmt::format("{} is a range, which is drawn from: say how many runs", path));
  }
  if (sweep.method == SweepMethod::kGrid && sweep.runs) {
    config_fail(tree, "sweep.runs", "a grid has as many runs as combinations; leave it out");
  }
  if (sweep.method == SweepMethod::kRandom && !sweep.runs) {
    config_fail(tree, "sweep.runs", "method random needs to know how many");
  }
  if (is_grid(sweep) && combinations(sweep) > kMostRuns) {
    config_fail(tree, "sweep.keys", fmt::format("more than {} combinations", kMostRuns));
  }
  if (sweep.method != SweepMethod::kHalving) {
    return;
  }
  for (const SweepKey& key : sweep.keys) {
    if (key.key == "eval.interval") {
      config_fail(tree, "sweep.keys",
                  "eval.interval says where runs of a halving can be compared; give it under eval");
    }
  }
  if (sweep.first_steps && *sweep.first_steps >= run.total_steps) {
    config_fail(tree, "sweep.first_steps",
                fmt::format("expected less than the {} steps of a run, found {}: nothing would be "
                            "left behind",
                            run.total_steps, *sweep.first_steps));
  }
  const int64_t interval = run.eval_interval.value_or(run.total_steps);
  if (sweep.first_steps && *sweep.first_steps % interval != 0) {
    config_fail(tree, "sweep.first_steps",
                fmt::format("{} is no multiple of eval.interval {}: nothing is measured there",
                            *sweep.first_steps, interval));
  }
  const std::vector<int64_t> rungs = sweep_rungs(run, sweep);
  if (!sweep.first_steps && rungs.size() < kComparisons) {
    log_warning(
        "{}: halving is meant to compare {} times and can at step {} alone; a smaller "
        "eval.interval makes room",
        config_where(tree, "sweep.method"), kComparisons, fmt::join(rungs, ", "));
  }
}

}  // namespace mstrain
