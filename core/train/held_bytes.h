// What a rank of a run holds besides what its steps change and compute, by how the run is laid out alone: its own plan (planned_run.h)
// and forecasts (core/forecast) count it here.
#pragma once

#include <span>

#include "core/optim/shard.h"
#include "core/train/tensor_parts.h"

namespace mstrain {

int64_t bytes_of(std::span<const TensorType> types);

// Those of the weights that all ranks along `data` get some blocks of, where these keep parts. The others are too small to be worth a
// collective of their own.
Shards cut_parameters(std::span<const ParamSpec> specs, const ParallelConfig& config,
                      const MeshAxis& data);
// What is held of each weight.
Types types_in_parts(std::span<const ParamSpec> specs, const Shards& shards);

struct HeldBytes {
  int64_t frozen = 0;            // of weights that no step changes
  int64_t gathered = 0;          // those of them that ranks along `data` keep in parts, whole
  int64_t largest_gathered = 0;  // one weight of these
  int64_t whole =
      0;  // all weights, where ranks keep parts and something asks for them: samples, norms of layers, answers
  bool whole_of_stages = false;  // so are then parameters that other stages update
  bool copies = false;           // the state, for checkpoints, whether or not there is room
  int64_t outside = 0;           // TrainTask::outside_bytes
};

// `parts`: of this task under this layout.
HeldBytes held_bytes(const TrainTask& task, const TrainConfig& config, const TensorParts& parts,
                     const Context& context);

}  // namespace mstrain
