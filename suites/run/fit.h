// Changes that make a run's plan fit, or leaner: each is planned before it is offered.
#pragma once

#include <cstdio>

#include "core/train/planned_run.h"
#include "core/train/session.h"
#include "suites/run/model_run.h"

namespace mstrain {

// About what a plan with micro-batches of a size would need, as plans of fewer layers tell; none where the plans themselves are
// made as soon. `run` and `tree` must outlive it.
TotalOfMicro total_of_micro(const ModelRun& run, const YamlNode& tree, const Context& context,
                            bool evaluates);

// Throws PlanError, whose message names changes of `run`, read from `tree`, that would fit in `context`. The run must outlive it.
Refuse refuse_by(const ModelRun& run, const YamlNode& tree, const Context& context);

// What choices that are not made yet save and cost, with the same micro-batches.
void print_choices(const ModelRun& run, const YamlNode& tree, const Context& context,
                   const RunPlan& plan, int64_t limit, std::FILE* out);

}  // namespace mstrain
