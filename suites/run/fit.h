// Changes that make a run's plan fit, or leaner: each is planned before it is offered.
#pragma once

#include <cstdio>
#include <memory>

#include "core/train/planned_run.h"
#include "core/train/session.h"
#include "suites/run/model_run.h"

namespace mstrain {

// What could be chosen in place of `plan`, of `run` as read from `tree`; all must outlive it. What was planned for one of its answers
// serves the other.
class Choices {
 public:
  Choices(const ModelRun& run, const YamlNode& tree, const Context& context, const RunPlan& plan,
          int64_t limit);
  ~Choices();

  // About what a plan with micro-batches of a size would need, as plans of fewer layers tell; none where the plans themselves are
  // made as soon.
  static TotalOfMicro total_of_micro(const ModelRun& run, const YamlNode& tree,
                                     const Context& context, bool evaluates);

  // What choices that are not made yet save and cost, with the same micro-batches.
  void print(std::FILE* out);
  // Throws PlanError, whose message names changes that would fit.
  [[noreturn]] void refuse();

 private:
  class Variants;
  const ModelRun& run_;
  const YamlNode& tree_;
  const RunPlan& plan_;
  int64_t limit_;
  std::unique_ptr<Variants> variants_;
};

// The last alone.
Refuse refuse_by(const ModelRun& run, const YamlNode& tree, const Context& context);

}  // namespace mstrain
