// Changes that make a run's plan fit, or leaner: each is planned before it is offered.
#pragma once

#include <cstdio>

#include "core/train/session.h"
#include "suites/run/model_run.h"

namespace mstrain {

// Throws PlanError, whose message names changes of `run`, read from `tree`, that would fit in `context`. The run must outlive it.
Refuse refuse_by(const ModelRun& run, const YamlNode& tree, const Context& context);

// What choices that are not made yet save and cost, with the same micro-batches.
void print_choices(const ModelRun& run, const YamlNode& tree, const Context& context,
                   const RunPlan& plan, int64_t limit, std::FILE* out);

}  // namespace mstrain
