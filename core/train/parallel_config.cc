#include "core/train/parallel_config.h"

#include <fmt/core.h>

namespace mstrain {

void check_runs_alone(const ParallelConfig& config, const YamlNode& tree) {
  const auto refuse = [&](std::string_view key, std::string_view found) {
    config_fail(tree, fmt::format("parallel.{}", key),
                fmt::format("{} is planned, by mstrain plan, and cannot be run: a run is of one "
                            "rank",
                            found));
  };
  const std::pair<const char*, int64_t> sizes[] = {{"data", config.data},
                                                   {"tensor", config.tensor},
                                                   {"pipeline", config.pipeline},
                                                   {"context", config.context},
                                                   {"virtual_pipeline", config.virtual_pipeline},
                                                   {"copies", config.copies}};
  for (const auto& [key, size] : sizes) {
    if (size > 1) {
      refuse(key, fmt::format("{}", size));
    }
  }
  if (config.plan != "manual") {
    refuse("plan", config.plan);
  }
  // What follows would decide nothing on one rank: whoever wrote it expected something.
  const ParallelConfig none;
  if (config.schedule != none.schedule) {
    refuse("schedule", config.schedule);
  }
  if (!config.stage_layout.empty()) {
    refuse("stage_layout", "a cut of the model");
  }
  if (config.zero.stage != none.zero.stage) {
    refuse("zero.stage", fmt::format("{}", config.zero.stage));
  }
  if (config.sequence_parallel.value_or(false)) {
    refuse("sequence_parallel", "true");
  }
  const OverlapConfig& overlap = config.overlap;
  for (const auto& [key, now, before] :
       {std::tuple("gradients", overlap.gradients, none.overlap.gradients),
        {"parameters", overlap.parameters, none.overlap.parameters},
        {"tensor", overlap.tensor, none.overlap.tensor}}) {
    if (now != before) {
      refuse(fmt::format("overlap.{}", key), now ? "true" : "false");
    }
  }
  if (config.bucket_mb != none.bucket_mb) {
    refuse("bucket_mb", fmt::format("{}", config.bucket_mb));
  }
}

}  // namespace mstrain
