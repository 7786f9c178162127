// Collectives of a plan that run under products.
#pragma once

#include "core/compile/plan.h"

namespace mstrain {

// How many have a product between where they begin and where they are waited for.
inline int covered_collectives(const Plan& plan) {
  int count = 0;
  for (const PlanStep& step : plan.steps) {
    for (int i = step.waits_for + 1;
         step.waits_for >= 0 && &plan.steps[static_cast<size_t>(i)] < &step; ++i) {
      if (plan.steps[static_cast<size_t>(i)].op->kind == OpKind::kContract) {
        ++count;
        break;
      }
    }
  }
  return count;
}

}  // namespace mstrain
