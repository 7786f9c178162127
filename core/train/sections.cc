#include "core/train/sections.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/compile/passes.h"

namespace mstrain {
namespace {

std::string list_divisors(int64_t n) {
  std::string out;
  int count = 0;
  for (int64_t d = n; d >= 1 && count < 8; --d) {
    if (n % d == 0) {
      out += (out.empty() ? "" : ", ") + std::to_string(d);
      ++count;
    }
  }
  return out;
}

bool may_change(const std::string& key) {
  return key.starts_with("run.") || key.starts_with("log.") || key.starts_with("profile.") ||
         key.starts_with("checkpoint.") || key.starts_with("eval.") || key == "batch.micro" ||
         key == "schedule.total_steps" || key == "fusion.explain";
}

void check_fusion_config(const FusionConfig& config, const YamlNode& tree) {
  std::vector<std::string> names;
  for (const FusionRule& rule : fusion_rules()) {
    names.emplace_back(rule.name);
  }
  for (const std::string& name : config.off) {
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      continue;
    }
    const std::string near = nearest(name, names);
    config_fail(tree, "fusion.off",
                fmt::format("there is no rule '{}'{}; there are {}", name,
                            near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                            fmt::join(names, ", ")));
  }
}

struct Sections {
  TrainConfig config;

  template <class V>
  void fields(V& v) {
    config.fields_before_model(v);
    config.fields_after_data(v);
  }
};

void check_callback_config(const TrainConfig& config, const YamlNode& tree) {
  if (config.eval.early_stopping) {
    check_monitor(tree, "eval.early_stopping.monitor", config.eval.early_stopping->monitor);
  }
  if (config.checkpoint.best) {
    check_monitor(tree, "checkpoint.best", *config.checkpoint.best);
  }
  const auto& reduce = config.schedule.reduce_on_plateau;
  if (reduce) {
    check_monitor(tree, "schedule.reduce_on_plateau.monitor", reduce->monitor);
  }
  if (reduce && config.schedule.type == ScheduleType::kPlateau) {
    config_fail(tree, "schedule.reduce_on_plateau",
                "schedule.type: plateau does the same with fewer choices; say constant");
  }
}

}  // namespace

void check_train_config(const TrainConfig& config, const YamlNode& tree) {
  const auto& [global, micro] = config.batch;
  if (!micro.is_word() && global % *micro.value != 0) {
    config_fail(tree, "batch.micro",
                fmt::format("{} does not divide batch.global {}; possible: {}", *micro.value,
                            global, list_divisors(global)));
  }
  if (config.run.directory().empty()) {
    config_fail(tree, "run.output_dir", "expected a folder's name, found \"\"");
  }
  check_fusion_config(config.fusion, tree);
  if (config.fusion.explain && config.run.execution == Execution::kEager) {
    config_fail(tree, "fusion.explain",
                "run.execution: eager fuses nothing that could be explained; say graph");
  }
  if (config.profile.steps > 0 && config.run.execution == Execution::kEager) {
    config_fail(tree, "profile.steps",
                "run.execution: eager has no plan whose kernels could be timed; say graph");
  }
  if (config.profile.steps > 0 && config.run.mode == RunMode::kBenchmark) {
    config_fail(tree, "profile.steps",
                "run.mode: benchmark writes nothing and times whole steps; say train");
  }
  check_precision_config(config.precision, tree);
  check_optimizer_config(config.optimizer, tree);
  check_schedule_config(config.schedule, tree);
  check_callback_config(config, tree);
}

std::vector<std::string> changed_keys(const YamlNode& before, const YamlNode& now) {
  std::map<std::string, std::string> old_values;
  std::set<std::string> keys;
  for (auto& [key, value] : flatten_config(before)) {
    keys.insert(key);
    old_values.emplace(key, value);
  }
  // A run of an earlier version did not know keys that came later.
  for (auto& [key, value] : flatten_config(write_config(Sections{}))) {
    old_values.emplace(key, value);
  }
  std::map<std::string, std::string> new_values;
  for (auto& [key, value] : flatten_config(now)) {
    keys.insert(key);
    new_values.emplace(key, value);
  }
  std::vector<std::string> out;
  for (const std::string& key : keys) {
    const auto old_value = old_values.find(key);
    const auto new_value = new_values.find(key);
    const std::string was = old_value == old_values.end() ? "(absent)" : old_value->second;
    const std::string is = new_value == new_values.end() ? "(absent)" : new_value->second;
    if (was != is && !may_change(key)) {
      out.push_back(fmt::format("{}: {}, now {}", key, was, is));
    }
  }
  return out;
}

}  // namespace mstrain
