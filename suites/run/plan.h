// Plans of runs on machines that are not here: what fits, how fast it is, and which layout is best.
#pragma once

#include "core/forecast/cluster.h"
#include "core/schedule/timeline.h"
#include "suites/run/run.h"

namespace mstrain {

struct PlanRequest {
  FileSystem& files;
  YamlNode tree;  // the configuration as it was given
  Cluster cluster;
  bool json = false;
  int64_t top = 5;                        // layouts to show, where parallel.plan is auto
  std::optional<std::string> write_plan;  // gets the best layout, for parallel.plan
  std::optional<std::string>
      write_schedule;  // gets the order of its pipeline, for parallel.schedule
  std::FILE* out = stdout;
};

// Throws ConfigError where what `tree` configures is nothing that plans are made for.
void check_planned(FileSystem& files, const YamlNode& tree);

// Prints the plan. Throws ConfigError for layouts that are impossible, with the nearest valid choice, and PlanError, behind what it
// printed, where none fits.
void plan(const PlanRequest& request);

// What the ranks of such a run do in a step, in micro-batches of `micro`, as the plan has it. `ids`: as many as its tokenizer has, where it
// has one. Throws as plan().
Timeline planned_step(FileSystem& files, const YamlNode& tree, const Cluster& cluster,
                      int64_t micro, std::optional<int64_t> ids);

}  // namespace mstrain
