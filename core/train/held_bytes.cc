#include "core/train/held_bytes.h"

#include <algorithm>

namespace mstrain {

int64_t bytes_of(std::span<const TensorType> types) {
  int64_t sum = 0;
  for (const TensorType& type : types) {
    sum += type.bytes();
  }
  return sum;
}

Shards cut_parameters(std::span<const ParamSpec> specs, const ParallelConfig& config,
                      const MeshAxis& data) {
  const int64_t group = config.zero.group.value_or(data.size);
  const int64_t replicas = data.size / group;
  const MeshAxis axis = replicas == 1 ? data : MeshAxis{std::string(kZeroAxis), group};
  Shards shards;
  for (const ParamSpec& spec : specs) {
    const int64_t elements = spec.type.elements();
    if (data.size > 1 && elements >= config.zero.min_numel && norm_blocks(elements) >= data.size) {
      shards.emplace(spec.name, Shard{spec.type.shape, axis, replicas});
    }
  }
  return shards;
}

Types types_in_parts(std::span<const ParamSpec> specs, const Shards& shards) {
  Types types;
  for (const ParamSpec& spec : specs) {
    const Shard* const shard = find_shard(shards, spec.name);
    types.push_back(
        {spec.type.dtype, shard == nullptr ? spec.type.shape : Shape{shard->elements()}});
  }
  return types;
}

HeldBytes held_bytes(const TrainTask& task, const TrainConfig& config, const TensorParts& parts,
                     const Context& context) {
  const MeshAxis data{std::string(kDataAxis), data_ranks(config.parallel, context)};
  const bool has_parts = data.size > 1 && config.parallel.zero.stage == 3;
  const Shards shards =
      has_parts ? cut_parameters(parts.held_frozen(), config.parallel, data) : Shards();
  HeldBytes out;
  out.frozen = bytes_of(types_in_parts(parts.held_frozen(), shards));
  for (const ParamSpec& spec : parts.held_frozen()) {
    if (find_shard(shards, spec.name) != nullptr) {
      out.gathered += spec.type.bytes();
      out.largest_gathered = std::max(out.largest_gathered, spec.type.bytes());
    }
  }
  const bool gathers =
      !config.eval.prompts.empty() || !config.log.layers.is_word() || task.asks_whole_weights;
  if (gathers && (has_parts || parts.shares())) {
    for (const ParamSpec& spec : task.parameters) {
      out.whole += spec.type.elements() * size_of(config.precision.param_dtype());
    }
    for (const ParamSpec& spec : task.frozen) {
      out.whole += spec.type.bytes();
    }
  }
  out.whole_of_stages = gathers && !has_parts;
  out.copies = config.checkpoint.async.value_or(false);
  out.outside = task.outside_bytes;
  return out;
}

}  // namespace mstrain
