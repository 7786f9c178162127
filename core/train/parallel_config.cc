#include "core/train/parallel_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/train/numbers.h"
#include "core/train/stages.h"

namespace mstrain {

int64_t data_ranks(const ParallelConfig& config, const Context& context) {
  return context.ranks != nullptr ? context.ranks->mesh().size(kDataAxis)
                                  : std::max<int64_t>(config.data, 1);
}

int64_t pipeline_ranks(const ParallelConfig& config, const Context& context) {
  return context.ranks != nullptr ? context.ranks->mesh().size(kPipelineAxis) : config.pipeline;
}

int64_t planned_ranks(const ParallelConfig& config) {
  return std::max<int64_t>(config.data, 1) * config.pipeline * config.context * config.tensor;
}

Mesh mesh_of(const ParallelConfig& config, int64_t ranks, const YamlNode& tree) {
  const int64_t others = config.pipeline * config.context * config.tensor;
  const int64_t data = config.data > 0 ? config.data : std::max<int64_t>(1, ranks / others);
  Mesh mesh{{{std::string(kPipelineAxis), config.pipeline},
             {std::string(kDataAxis), data},
             {std::string(kContextAxis), config.context},
             {std::string(kTensorAxis), config.tensor}},
            config.zero.group.value_or(0)};
  if (mesh.ranks() != ranks) {
    const std::string change =
        config.data > 0 && ranks % others == 0
            ? fmt::format("say parallel.data={}, or start {}", ranks / others, mesh.ranks())
            : fmt::format("start {}", mesh.ranks());
    config_fail(tree, "parallel.data",
                fmt::format("{} is not the {} rank{} that there {}; {}", mesh.describe(), ranks,
                            ranks == 1 ? "" : "s", ranks == 1 ? "is" : "are", change));
  }
  return mesh;
}

std::shared_ptr<Ranks> make_ranks(const ParallelConfig& config,
                                  std::unique_ptr<Communicator> world) {
  Mesh mesh = mesh_of(config, world->size());
  return std::make_shared<Ranks>(std::move(mesh), std::move(world));
}

void check_only_data(const ParallelConfig& config, const YamlNode& tree, std::string_view why) {
  for (const auto& [key, value] : {std::pair("parallel.tensor", config.tensor),
                                   std::pair("parallel.pipeline", config.pipeline),
                                   std::pair("parallel.context", config.context)}) {
    if (value > 1) {
      config_fail(tree, key, fmt::format("{}: parallel.data", why));
    }
  }
}

void check_runs(const ParallelConfig& config, const YamlNode& tree, int64_t ranks) {
  if (config.copies > 1 && config.tensor * config.context == 1) {
    config_fail(
        tree, "parallel.copies",
        "hides the collectives of parallel.tensor and parallel.context, which are 1; leave it out");
  }
  const int64_t data = mesh_of(config, ranks, tree).size(kDataAxis);
  if (read_own_schedule(real_files(), config, tree) == nullptr) {
    schedule_of(config, tree);
  }
  // What follows would decide nothing: whoever wrote it expected something.
  const ParallelConfig none;
  for (const auto& [key, is_said] : {std::pair("schedule", config.schedule != none.schedule),
                                     {"stage_layout", !config.stage_layout.empty()}}) {
    if (config.pipeline == 1 && is_said) {
      config_fail(tree, fmt::format("parallel.{}", key),
                  "is for parallel.pipeline of 2 or more; leave it out");
    }
  }
  if (!config.zero.group.is_word() && config.zero.stage == 0) {
    config_fail(tree, "parallel.zero.group", "is for parallel.zero.stage 1 or more; leave it out");
  }
  if (data % config.zero.group.value_or(1) != 0) {
    std::vector<int64_t> sizes = divisors(data);
    sizes.erase(sizes.begin());
    config_fail(
        tree, "parallel.zero.group",
        fmt::format("{} ranks do not divide the {} along data; say {}", *config.zero.group.value,
                    data, sizes.empty() ? "auto" : fmt::format("{}", fmt::join(sizes, " or "))));
  }
  if (config.zero.regather != none.zero.regather && config.zero.stage != 3) {
    config_fail(tree, "parallel.zero.regather", "is for parallel.zero.stage 3; leave it out");
  }
  if (config.zero.regather == Regather::kNever && config.pipeline > 1) {
    config_fail(tree, "parallel.zero.regather",
                "stages of a pipeline forget what they gathered with each of their programs; say "
                "auto or always");
  }
  if (config.sequence_parallel.value_or(false) && config.tensor == 1) {
    config_fail(tree, "parallel.sequence_parallel",
                "ranks along tensor share positions, and parallel.tensor is 1; say auto");
  }
  if (config.context == 1 && config.context_way != none.context_way) {
    config_fail(tree, "parallel.context_way", "is for parallel.context of 2 or more; leave it out");
  }
  if (config.overlap.tensor && config.tensor == 1) {
    config_fail(tree, "parallel.overlap.tensor",
                "hides the collectives of parallel.tensor, which is 1; leave it out");
  }
}

}  // namespace mstrain
