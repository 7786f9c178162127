#include "core/train/shared_plan.h"

#include "core/train/rank_talk.h"

namespace mstrain {

int64_t memory_of_rank(const MemoryConfig& config, const Context& context) {
  return memory_limit(config, context) /
         (config.limit_gb.is_word() ? ranks_here(context.ranks.get()) : 1);
}

PlannedRun plan_together(const TrainTask& task, const TrainConfig& config, const Context& context,
                         int64_t limit, bool evaluates, int64_t kept) {
  Ranks* const ranks = context.ranks.get();
  PlannedRun run = plan_run(task, config, context, limit, evaluates, kept);
  if (least(ranks, kept > 0 && run.plan.total() > limit ? 0 : 1, "plan") == 0) {
    run = plan_run(task, config, context, limit, evaluates);
  }
  if (const int64_t micro = least(ranks, run.plan.micro, "plan"); micro != run.plan.micro) {
    run = plan_run(task, config, context, limit, evaluates, micro);
  }
  const bool keeps = !run.plan.regathers.value_or(true);
  if (const bool all_keep = least(ranks, keeps ? 1 : 0, "plan") != 0; keeps && !all_keep) {
    TrainConfig regathering = config;
    regathering.parallel.zero.regather = Regather::kAlways;
    run = plan_run(task, regathering, context, limit, evaluates, run.plan.micro);
  }
  if (ranks != nullptr && ranks->mesh().size(kPipelineAxis) > 1) {
    const Elements flops{&run.plan.cost.flops, 1, Dtype::kF64};
    ranks->along(kPipelineAxis).all_reduce(flops, flops, Reduction::kSum, "plan").wait();
  }
  return run;
}

void refuse_together(const RunPlan& plan, int64_t limit,
                     const std::function<void(const RunPlan&, int64_t)>& refuse) {
  const bool fits = plan.total() <= limit;
  const bool all_fit = least(current_context().ranks.get(), fits ? 1 : 0, "plan") != 0;
  if (!fits) {
    refuse(plan, limit);
  }
  if (!all_fit) {
    throw ConfigError(
        "parallel.pipeline: another stage needs more memory than there is (its log is in ranks/); "
        "parallel.stage_layout can give it fewer layers");
  }
}

}  // namespace mstrain
