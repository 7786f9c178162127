// The plan of a run that all its ranks take. Every rank calls these, in the same order, within the context that they share.
#pragma once

#include "core/train/planned_run.h"

namespace mstrain {

// What a rank may take of this machine's memory: memory.limit_gb, or its share of what there is.
int64_t memory_of_rank(const MemoryConfig& config, const Context& context);

// plan_run by the rank that has the least memory, with the arithmetic of all stages of a pipeline. `kept`: the micro-batch to keep to where it fits on all; 0: none.
PlannedRun plan_together(const TrainTask& task, const TrainConfig& config, const Context& context,
                         int64_t limit, bool evaluates, int64_t kept = 0);

// Throws where the plan of any rank does not fit: by `refuse` on those whose own does not.
void refuse_together(const RunPlan& plan, int64_t limit,
                     const std::function<void(const RunPlan&, int64_t)>& refuse);

}  // namespace mstrain
