#include "core/train/stage_programs.h"

#include "core/schedule/check.h"
#include "core/tensor/jit.h"
#include "core/train/stages.h"

namespace mstrain {

PipelineLayout pipeline_layout(const ParallelConfig& config, int64_t layers, int64_t ranks,
                               int64_t micro_batches) {
  const auto turns = static_cast<int>(micro_batches);
  Schedule schedule;
  if (const auto own = read_own_schedule(real_files(), config, YamlNode())) {
    // Evaluations have another number of micro-batches.
    schedule =
        own->micro_batches == turns ? *own : gpipe_schedule(check_schedule(*own).chunk_rank, turns);
  } else {
    schedule = make_schedule(schedule_of(config, YamlNode()), static_cast<int>(ranks),
                             static_cast<int>(config.virtual_pipeline), turns);
  }
  std::vector<int64_t> first{0};
  for (const int64_t stage : stages_of(config, YamlNode(), layers, schedule.chunks)) {
    first.push_back(first.back() + stage);
  }
  first.pop_back();
  return {std::move(schedule), std::move(first)};
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
