#include "suites/run/model_profiles.h"

#include <numeric>

#include "core/exec/execute.h"
#include "core/train/loss_program.h"
#include "core/train/step.h"

namespace mstrain {

ModelProfiles::ModelProfiles(const ModelRun& run, const YamlNode& tree, int64_t ids,
                             const Context& context)
    : tree_(tree), ids_(ids), context_(context) {
  const std::unique_ptr<ModelRun> few = with_changes(run.with_layers(kFewBlocks));
  const std::unique_ptr<ModelRun> some = with_changes(run.with_layers(kBlocks));
  in_blocks_ =
      parameters_of_blocks(few->adapted_task().parameters, some->adapted_task().parameters);
  model_ = run.with_layers(kBlocks);
  some->train.parallel.context = 1;  // profiles are of one rank
  together_ = some->adapted_task().samples_together;
  const Overrides own = some->profile_changes();
  model_.insert(model_.end(), own.begin(), own.end());
}

const Profile& ModelProfiles::of(int64_t micro, Recompute recompute, bool in_parts) {
  in_parts = in_parts && together_ > 1;
  const auto [found, is_new] = known_.try_emplace({micro, recompute, in_parts});
  if (is_new) {
    found->second = read(micro, recompute, in_parts);
  }
  return found->second;
}

double ModelProfiles::evaluation(const RunLayout& layout) {
  const int64_t micro = layout.micro / layout.copies;
  const auto [found, is_new] =
      evaluations_.try_emplace({micro, layout.tensor, layout.context, layout.sequence_parallel});
  if (is_new) {
    const std::unique_ptr<ModelRun> run = with_micro(micro, {});
    ParallelConfig& parallel = run->train.parallel;
    parallel.tensor = layout.tensor;
    parallel.context = layout.context;
    parallel.sequence_parallel = layout.sequence_parallel;
    const TrainTask task = run->adapted_task();
    const ProgramMemory memory = LossProgram(task, run->train, micro, context_).memory();
    found->second = static_cast<double>(memory.arena + memory.outputs);
  }
  return found->second;
}

std::unique_ptr<ModelRun> ModelProfiles::with_changes(const Overrides& changes) const {
  YamlNode tree = tree_;
  apply_overrides(tree, changes);
  std::unique_ptr<ModelRun> out = read_run(tree);
  out->settle(ids_, tree);
  return out;
}

std::unique_ptr<ModelRun> ModelProfiles::with_micro(int64_t micro, const Overrides& more) const {
  Overrides changes = model_;
  changes.insert(changes.end(), more.begin(), more.end());
  changes.push_back(fmt::format("batch.global={}", 2 * std::lcm(micro, together_)));
  changes.push_back(fmt::format("batch.micro={}", micro));
  changes.emplace_back("run.execution=graph");
  for (const char* key : {"data=1", "tensor=1", "sequence_parallel=auto", "pipeline=1", "context=1",
                          "copies=1", "virtual_pipeline=1", "schedule=1f1b", "stage_layout=[]"}) {
    changes.push_back(fmt::format("parallel.{}", key));
  }
  return with_changes(changes);
}

Profile ModelProfiles::read(int64_t micro, Recompute recompute, bool in_parts) const {
  constexpr const char* kNames[] = {"none", "selective", "full"};
  const std::unique_ptr<ModelRun> run = with_micro(
      micro, {fmt::format("memory.recompute={}", kNames[static_cast<size_t>(recompute)])});
  const TrainConfig train = run->train;
  run->train.parallel.context = in_parts ? 2 : 1;
  const TrainTask task = run->adapted_task();
  const StepProgram step(task, train, micro, context_);
  return read_profile(plan_of(*step.program()), task, step.state_types(), in_blocks_, ids_,
                      kBlocks);
}

}  // namespace mstrain
