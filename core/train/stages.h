// How a pipeline deals the layers of a model and the work of a step to its ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/files.h"
#include "core/schedule/schedule.h"
#include "core/train/parallel_config.h"

namespace mstrain {

// Null where no schedule has that name.
const ScheduleKind* schedule_named(std::string_view name);

// Chunks that the schedule gives each rank along the pipeline.
int64_t chunks_of_rank(ScheduleKind schedule, int64_t virtual_pipeline);

// `layers` over `chunks`, as evenly as they go; the first and the last, which have embedding and head besides, get fewer.
std::vector<int64_t> even_stages(int64_t layers, int64_t chunks);

// What parallel.schedule names. Throws ConfigError, with the line in `tree` and the nearest name, where it names none, and for
// virtual stages that it has not.
ScheduleKind schedule_of(const ParallelConfig& config, const YamlNode& tree);

// The schedule in the file that parallel.schedule names, proven, and for the ranks that the pipeline has; null where it is one of those that have
// a name, or no file. Throws ConfigError and IoError.
std::shared_ptr<const Schedule> read_own_schedule(FileSystem& files, const ParallelConfig& config,
                                                  const YamlNode& tree);
// Throws ConfigError where steps of `global` samples, in micro-batches of `micro` on each of `data` ranks, are not as many micro-batches as the
// file has.
void check_micro_batches(const Schedule& own, const ParallelConfig& config, const YamlNode& tree,
                         int64_t global, int64_t micro, int64_t data);

// Layers of each of so many chunks, as parallel.stage_layout says, or equally many. Throws ConfigError, with the line in `tree` and what
// would do, where they are not all layers of the model, or do not divide.
std::vector<int64_t> stages_of(const ParallelConfig& config, const YamlNode& tree, int64_t layers,
                               int64_t chunks);

// The divisors of `of` that are nearest to `wanted`, for people.
std::string nearest_divisors(int64_t of, int64_t wanted);

}  // namespace mstrain
