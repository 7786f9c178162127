#include "core/train/stages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/schedule/check.h"
#include "core/train/numbers.h"

namespace mstrain {

const ScheduleKind* schedule_named(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kScheduleKinds), std::end(kScheduleKinds),
                                         [&](ScheduleKind kind) { return name_of(kind) == name; });
  return found == std::end(kScheduleKinds) ? nullptr : found;
}

int64_t chunks_of_rank(ScheduleKind schedule, int64_t virtual_pipeline) {
  return schedule == ScheduleKind::kZbv ? 2 : virtual_pipeline;
}

std::vector<int64_t> even_stages(int64_t layers, int64_t chunks) {
  std::vector<int64_t> out(static_cast<size_t>(chunks), layers / chunks);
  // What is left over goes to the chunks in the middle first.
  const int64_t begin = (chunks - layers % chunks) / 2;
  for (int64_t i = 0; i < layers % chunks; ++i) {
    ++out[static_cast<size_t>(begin + i)];
  }
  return out;
}

ScheduleKind schedule_of(const ParallelConfig& config, const YamlNode& tree) {
  const ScheduleKind* const kind = schedule_named(config.schedule);
  if (kind == nullptr) {
    std::vector<std::string> names;
    for (ScheduleKind each : kScheduleKinds) {
      names.emplace_back(name_of(each));
    }
    config_fail(tree, "parallel.schedule",
                fmt::format("'{}' is none of {}, and no file{}", config.schedule,
                            fmt::join(names, ", "), did_you_mean(config.schedule, names)));
  }
  if (config.virtual_pipeline > 1 && *kind != ScheduleKind::kInterleaved) {
    config_fail(tree, "parallel.virtual_pipeline",
                fmt::format("{} parts a rank are for parallel.schedule: interleaved",
                            config.virtual_pipeline));
  }
  if (config.virtual_pipeline > 1 && config.pipeline == 1) {
    config_fail(tree, "parallel.virtual_pipeline",
                fmt::format("{} parts a rank need parallel.pipeline of 2 or more",
                            config.virtual_pipeline));
  }
  return *kind;
}

std::shared_ptr<const Schedule> read_own_schedule(FileSystem& files, const ParallelConfig& config,
                                                  const YamlNode& tree) {
  constexpr uint64_t kLargest = 64 << 20;
  if (schedule_named(config.schedule) != nullptr || !files.exists(config.schedule)) {
    return nullptr;
  }
  Schedule schedule = parse_schedule(files.read(config.schedule, kLargest), config.schedule);
  const auto refuse = [&](const std::string& why) {
    config_fail(tree, "parallel.schedule", fmt::format("{}{}", config.schedule, why));
  };
  try {
    check_schedule(schedule);
  } catch (const Error& error) {
    refuse(fmt::format(": {}", error.what()));
  }
  if (schedule.ranks != config.pipeline) {
    refuse(
        fmt::format(" is for {} ranks; say parallel.pipeline={}", schedule.ranks, schedule.ranks));
  }
  if (config.virtual_pipeline > 1) {
    config_fail(tree, "parallel.virtual_pipeline",
                fmt::format("{} says how many parts a rank has; leave it out", config.schedule));
  }
  return std::make_shared<const Schedule>(std::move(schedule));
}

void check_micro_batches(const Schedule& own, const ParallelConfig& config, const YamlNode& tree,
                         int64_t global, int64_t micro, int64_t data) {
  if (global == own.micro_batches * micro * data) {
    return;
  }
  const int64_t turns = own.micro_batches * data;
  config_fail(
      tree, "parallel.schedule",
      fmt::format("{} is for {} micro-batches, but a step has {}; say {}batch.global={}",
                  config.schedule, own.micro_batches, global / micro / data,
                  global % turns == 0 ? fmt::format("batch.micro={} or ", global / turns) : "",
                  turns * micro));
}

std::vector<int64_t> stages_of(const ParallelConfig& config, const YamlNode& tree, int64_t layers,
                               int64_t chunks) {
  const std::string example =
      layers < chunks ? "" : fmt::format("[{}]", fmt::join(even_stages(layers, chunks), ","));
  if (config.stage_layout.empty()) {
    if (layers % chunks != 0) {
      config_fail(
          tree, "parallel.pipeline",
          fmt::format("{} layers do not divide into {} parts; the nearest that do: {}{}", layers,
                      chunks, nearest_divisors(layers, chunks),
                      example.empty()
                          ? ""
                          : "; or say which has how many, as parallel.stage_layout=" + example));
    }
    return std::vector<int64_t>(static_cast<size_t>(chunks), layers / chunks);
  }
  const std::vector<int64_t>& stages = config.stage_layout;
  const int64_t sum = std::accumulate(stages.begin(), stages.end(), int64_t{0});
  const bool some_are_empty = std::find(stages.begin(), stages.end(), 0) != stages.end();
  const std::string advice = example.empty() ? "" : "; for example " + example;
  if (std::ssize(stages) != chunks || sum != layers) {
    config_fail(tree, "parallel.stage_layout",
                fmt::format("{} layers in {} parts, but the model has {} and the pipeline {}{}",
                            sum, stages.size(), layers, chunks, advice));
  }
  if (some_are_empty) {
    config_fail(tree, "parallel.stage_layout",
                fmt::format("a part of [{}] has no layer{}", fmt::join(stages, ","), advice));
  }
  return stages;
}

std::string nearest_divisors(int64_t of, int64_t wanted) {
  std::vector<int64_t> all = divisors(of);
  std::stable_sort(all.begin(), all.end(), [&](int64_t a, int64_t b) {
    return std::abs(a - wanted) < std::abs(b - wanted);
  });
  all.resize(std::min<size_t>(all.size(), 3));
  return fmt::format("{}", fmt::join(all, " or "));
}

}  // namespace mstrain
