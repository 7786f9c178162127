#include "core/train/stage_programs.h"

#include "core/tensor/jit.h"
#include "core/train/stages.h"

namespace mstrain {

PipelineLayout pipeline_layout(const ParallelConfig& config, int64_t layers, int64_t ranks,
                               int64_t micro_batches) {
  const ScheduleKind kind = schedule_of(config, YamlNode());
  const int64_t chunks = ranks * chunks_of_rank(kind, config.virtual_pipeline);
  std::vector<int64_t> first{0};
  for (const int64_t stage : stages_of(config, YamlNode(), layers, chunks)) {
    first.push_back(first.back() + stage);
  }
  first.pop_back();
  return {make_schedule(kind, static_cast<int>(ranks), static_cast<int>(config.virtual_pipeline),
                        static_cast<int>(micro_batches)),
          std::move(first)};
}

// What parameters alone decide is in no chunk of a pipeline: each program puts together what it reads.
GraphPtr from_parts(const GraphPtr& program, std::vector<const Shard*> shards, bool overlaps) {
  Types types;
  for (const Value& input : program->inputs()) {
    types.push_back(program->type(input));
  }
  shards.resize(types.size(), nullptr);
  bool any = false;
  for (size_t i = 0; i < types.size(); ++i) {
    if (shards[i] != nullptr) {
      types[i].shape = {shards[i]->elements()};
      any = true;
    }
  }
  if (!any) {
    return program;
  }
  Tensors captures;
  GraphPtr out = trace_program(
      types,
      [&](std::span<const Tensor> given) {
        const WaitScope scope(!overlaps);
        Tensors inputs(given.begin(), given.end());
        for (size_t i = 0; i < inputs.size(); ++i) {
          inputs[i] = shards[i] == nullptr ? inputs[i] : whole_of(inputs[i], *shards[i]);
        }
        return replay(*program, inputs);
      },
      &captures);
  check(captures.empty(), "putting parts together needs {} tensors more", captures.size());
  return out;
}

}  // namespace mstrain
