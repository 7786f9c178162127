#include "core/train/sections.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/paths.h"
#include "core/base/yaml_scalar.h"
#include "core/compile/passes.h"
#include "core/train/numbers.h"
#include "core/train/run_device.h"
#include "core/train/stages.h"

namespace mstrain {
namespace {

std::string largest_divisors(int64_t n) {
  constexpr size_t kShown = 8;
  std::vector<int64_t> all = divisors(n);
  std::reverse(all.begin(), all.end());
  all.resize(std::min(all.size(), kShown));
  return fmt::format("{}", fmt::join(all, ", "));
}

constexpr std::string_view kOnRequest[] = {"optimizer.lr",
                                           "optimizer.betas",
                                           "optimizer.eps",
                                           "optimizer.weight_decay",
                                           "optimizer.alpha",
                                           "optimizer.clip_grad",
                                           "optimizer.not_finite",
                                           "optimizer.skip_spikes",
                                           "optimizer.max_skipped",
                                           "embedding.optimizer.lr",
                                           "embedding.wide_optimizer.lr",
                                           "embedding.eviction",
                                           "embedding.evict_every",
                                           "schedule",
                                           "batch",
                                           "memory",
                                           "fusion",
                                           "data.train",
                                           "data.valid",
                                           "data.split",
                                           "data.extensions",
                                           "data.shuffle",
                                           "data.packing",
                                           "data.binary"};

// Whether `key` is `unit` or lies in it.
bool is_in(std::string_view key, std::string_view unit) {
  return key.starts_with(unit) && (key.size() == unit.size() || key[unit.size()] == '.');
}

// What this version writes for a value that an earlier one may have written: floats as the doubles that they are.
std::string as_now(const std::string& written) {
  const auto number = yaml_scalar::parse_double(written);
  const auto narrow = static_cast<float>(number.value_or(0));
  return number && *number == double{narrow} ? to_flow(config_detail::write_float(narrow))
                                             : written;
}

void check_offload(const TrainConfig& config, const YamlNode& tree) {
  const OffloadConfig& offload = config.memory.offload;
  const bool activations = offload.activations != Offload::kNone;
  const char* const key = activations ? "memory.offload.activations" : "memory.offload.optimizer";
  if (!offload.any()) {
    return;
  }
  if (!config.run.device_description && is_on_cpu(config.run)) {
    config_fail(tree, key,
                fmt::format("run.device: {} computes in the host's memory, where all of it lies "
                            "already; say none, or run.device=cuda",
                            config.run.device == "auto" ? "auto is cpu here, which" : "cpu"));
  }
  if (config.run.execution == Execution::kEager) {
    config_fail(tree, key,
                "run.execution: eager has no plan of what comes back when; say none, or "
                "run.execution=graph");
  }
  if (activations && config.parallel.pipeline > 1) {
    config_fail(tree, key,
                "the programs of a pipeline keep them between each other, on the device; say none, "
                "or parallel.pipeline=1");
  }
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
  if (config.parallel.data == 0) {
    config_fail(tree, "parallel.data", "expected -1 or an integer >= 1, found 0");
  }
  const auto& [global, micro] = config.batch;
  if (!micro.is_word() && global % *micro.value != 0) {
    config_fail(tree, "batch.micro",
                fmt::format("{} does not divide batch.global {}; possible: {}", *micro.value,
                            global, largest_divisors(global)));
  }
  if (config.parallel.tensor * config.parallel.context > 1 &&
      config.run.execution == Execution::kEager) {
    config_fail(tree, "run.execution",
                "eager runs on one rank along tensor and context; say graph with more");
  }
  if (config.run.directory().empty()) {
    config_fail(tree, "run.output_dir", "expected a folder's name, found \"\"");
  }
  if (!is_plain_name(config.run.name)) {
    config_fail(
        tree, "run.name",
        fmt::format("\"{}\" is no name; a folder is named by run.output_dir", config.run.name));
  }
  if (config.run.device == "cpu" && config.run.device_description) {
    config_fail(tree, "run.device_description",
                "describes a device that is not here, but run.device is cpu, which is; say cuda");
  }
  check_offload(config, tree);
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
  if (config.find_lr.lowest >= config.find_lr.highest) {
    config_fail(tree, "find_lr.highest",
                fmt::format("{} is not above find_lr.lowest {}", config.find_lr.highest,
                            config.find_lr.lowest));
  }
  check_precision_config(config.precision, tree);
  check_optimizer_config(config.optimizer, tree);
  check_schedule_config(config.schedule, tree);
  check_callback_config(config, tree);
}

void check_batch(const TrainConfig& config, int64_t data_ranks, const YamlNode& tree) {
  const auto& [global, micro] = config.batch;
  const int64_t copies = config.parallel.copies;
  if (!micro.is_word() && *micro.value % copies != 0) {
    config_fail(tree, "parallel.copies",
                fmt::format("{} does not divide the {} samples of a micro-batch (batch.micro); "
                            "possible: {}",
                            copies, *micro.value, largest_divisors(*micro.value)));
  }
  const int64_t unit = data_ranks * micro.value_or(copies);
  const int64_t stages = config.parallel.pipeline;
  if (stages > 1 && config.run.execution == Execution::kEager) {
    config_fail(tree, "run.execution",
                "eager has no programs that a pipeline could be made of; say graph");
  }
  if (global % unit == 0 && global / unit < stages) {
    std::vector<int64_t> fewer = divisors(global / data_ranks);
    std::erase_if(fewer, [&](int64_t rows) { return global / data_ranks / rows < stages; });
    config_fail(
        tree, "parallel.pipeline",
        fmt::format("{} ranks need as many micro-batches, but a step has {} ({} samples over data "
                    "{}, in micro-batches of {}); say {}batch.global={}",
                    stages, global / unit, global, data_ranks, micro.value_or(copies),
                    fewer.empty() ? "" : fmt::format("batch.micro={} or ", fewer.back()),
                    stages * unit));
  }
  if (global % unit == 0) {
    if (const auto own = read_own_schedule(real_files(), config.parallel, tree)) {
      const int64_t turns = own->micro_batches * data_ranks * copies;
      const int64_t any = global % turns == 0 ? global / turns * copies : copies;
      check_micro_batches(*own, config.parallel, tree, global, micro.value_or(any), data_ranks);
    }
    return;
  }
  const int64_t below = global / unit * unit;
  const std::string sizes =
      below == 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
  if (global % data_ranks != 0) {
    std::vector<int64_t> ranks = divisors(global / micro.value_or(copies));
    std::erase_if(ranks, [&](int64_t n) { return n > data_ranks; });
    config_fail(tree, "batch.global",
                fmt::format("{} samples in micro-batches of {} cannot be shared by {} ranks "
                            "(parallel.data); say {}, or take {} ranks",
                            global, micro.value_or(copies), data_ranks, sizes, ranks.back()));
  }
  config_fail(
      tree, "batch.micro",
      fmt::format("{} samples in micro-batches of {} cannot be shared by {} ranks "
                  "(parallel.data); possible: {}; or a batch.global of {}",
                  global, *micro.value, data_ranks, largest_divisors(global / data_ranks), sizes));
}

std::vector<KeyChange> changed_keys(const YamlNode& before, const YamlNode& now) {
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
  std::vector<KeyChange> out;
  for (const std::string& key : keys) {
    const auto old_value = old_values.find(key);
    const auto new_value = new_values.find(key);
    const std::string was = old_value == old_values.end() ? "(absent)" : old_value->second;
    const std::string is = new_value == new_values.end() ? "(absent)" : new_value->second;
    const bool came_later = old_value == old_values.end() && is == "null";
    if (was != is && as_now(was) != is && !came_later) {
      out.push_back({key, was, is});
    }
  }
  return out;
}

std::string describe(const KeyChange& change) {
  return fmt::format("{}: {}, now {}", change.key, change.before, change.now);
}

Changing may_change(std::string_view key) {
  if (is_in(key, "run.seed")) {
    return Changing::kNever;
  }
  for (const char* free : {"run", "parallel", "log", "profile", "find_lr", "sweep", "checkpoint",
                           "eval", "batch.micro", "schedule.total_steps", "fusion.explain",
                           "embedding_cache", "algorithm.threads", "data.workers", "evaluation"}) {
    if (is_in(key, free)) {
      return Changing::kFreely;
    }
  }
  const bool on_request = std::any_of(std::begin(kOnRequest), std::end(kOnRequest),
                                      [&](std::string_view unit) { return is_in(key, unit); });
  return on_request ? Changing::kOnRequest : Changing::kNever;
}

std::string changeable_keys() { return fmt::format("{}", fmt::join(kOnRequest, ", ")); }

std::string unit_of(std::string_view key) {
  const size_t dot = key.find('.');
  return std::string(dot == std::string_view::npos ? key : key.substr(0, key.find('.', dot + 1)));
}

}  // namespace mstrain
