// What the programs of a pipeline are made from, be it for steps or for evaluations.
#pragma once

#include <vector>

#include "core/ir/graph.h"
#include "core/optim/shard.h"
#include "core/schedule/schedule.h"
#include "core/train/parallel_config.h"

namespace mstrain {

struct PipelineLayout {
  Schedule schedule;
  std::vector<int64_t> first;  // the layer that each chunk begins with
};
// Of so many layers and ranks. Throws ConfigError where they do not make up the pipeline that `config` asks for.
PipelineLayout pipeline_layout(const ParallelConfig& config, int64_t layers, int64_t ranks,
                               int64_t micro_batches);

// `program` with inputs in parts: of each that has a shard in `shards`, by input, it is given this rank's part, and puts the whole
// together, under other work where `overlaps`.
GraphPtr from_parts(const GraphPtr& program, std::vector<const Shard*> shards, bool overlaps);

}  // namespace mstrain
