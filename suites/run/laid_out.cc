#include "suites/run/laid_out.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/written_yaml.h"
#include "core/forecast/here.h"
#include "core/train/rank_talk.h"
#include "core/train/sweep.h"
#include "suites/run/planning.h"

namespace mstrain {
namespace {

// What a run that goes on keeps under any layout.
constexpr std::string_view kKept = "memory.recompute";

std::string key_of(const std::string& change) { return change.substr(0, change.find('=')); }

// The layout of the run, or of the sweep, that is in the directory of `config`, where it is one of so many ranks; else what of it must
// stay.
Overrides layout_so_far(FileSystem& files, const TrainConfig& config, int64_t ranks) {
  const std::string path =
      join_path(config.run.directory(), config.sweep ? kSweepConfigFile : kConfigFile);
  if (!files.exists(path)) {
    return {};
  }
  const YamlNode before = read_written_yaml(files, path);
  const TrainConfig then = read_run(before)->train;
  Overrides out;
  for (const std::string& each : RunLayout().keys()) {
    const std::string key = key_of(each);
    const YamlNode* const value = find_config(before, key);
    if (value != nullptr && (key == kKept || planned_ranks(then.parallel) == ranks)) {
      out.push_back(fmt::format("{}={}", key, to_flow(*value)));
    }
  }
  return out;
}

YamlNode with_best_layout(FileSystem& files, const YamlNode& tree, const Cluster& here) {
  const std::unique_ptr<ModelRun> run = read_run(tree);
  std::optional<int64_t> ids = run->network()->ids();
  if (!ids) {
    run->open_data(files, tree, std::nullopt);
    ids = run->data_ids();
  }
  const Planning planning(files, tree, here, ids);
  const std::set<std::string> decided = planning.decided(/*all=*/false);
  const SearchResult found = search_layouts(planning, decided, /*top=*/1);
  const Forecast& best = found.best.empty() ? found.too_large[0] : found.best[0];
  log_info("parallel.plan: auto takes {}, planned at {:.3g} s a step", best.layout.describe(),
           best.step_seconds);
  YamlNode laid_out = tree;
  apply_overrides(laid_out, best.layout.keys());
  return laid_out;
}

}  // namespace

YamlNode with_named_layout(FileSystem& files, YamlNode tree) {
  const std::string plan = read_run(tree)->train.parallel.plan;
  return is_plan_file(plan) ? with_plan_file(files, std::move(tree), plan) : tree;
}

YamlNode with_layout(FileSystem& files, YamlNode tree, Communicator& world, bool restarts) {
  const TrainConfig config = read_run(tree)->train;
  if (config.parallel.plan != kAutoPlan || world.size() == 1) {
    return tree;
  }
  if (ranks_here(world) < world.size()) {
    config_fail(
        tree, "parallel.plan",
        "auto measures one machine, and the ranks are on several; describe them in a file, and "
        "take what mstrain plan --cluster FILE --write-plan PLAN writes");
  }
  if (!restarts) {
    for (const std::string& key : layout_so_far(files, config, world.size())) {
      if (find_config(tree, key_of(key)) == nullptr) {
        apply_overrides(tree, Overrides{key});
      }
    }
    if (planned_ranks(read_run(tree)->train.parallel) == world.size()) {
      return tree;
    }
  }
  if (read_run(tree)->unplanned()) {
    return tree;  // parallel.data is all that there is
  }
  const Cluster here = measure_here(make_context(config), world);
  return with_best_layout(files, tree, here);
}

}  // namespace mstrain
