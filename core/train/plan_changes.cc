// Plans that other choices lead to.
#include <algorithm>

#include "core/train/planned_run.h"

namespace mstrain {

std::vector<Overrides> leaner_precisions(const PrecisionConfig& config) {
  std::vector<Overrides> out;
  Overrides changes;
  const auto change = [&](bool already, const char* to) {
    if (!already) {
      changes.emplace_back(to);
    }
  };
  const auto offer = [&] {
    if (!changes.empty() && (out.empty() || out.back() != changes)) {
      out.push_back(changes);
    }
  };
  change(config.moments == MomentType::kInt8, "precision.moments=int8");
  offer();
  const bool fp16 = config.params == FloatType::kFp16;  // whose weights need a master
  change(config.params != FloatType::kFp32, "precision.params=bf16");
  change(config.grads != FloatType::kFp32, fp16 ? "precision.grads=fp16" : "precision.grads=bf16");
  offer();
  change(fp16 || config.master == MasterType::kNone, "precision.master=none");
  offer();
  return out;
}

RunPlan extrapolated(const RunPlan& with_few, int64_t few, const RunPlan& with_more, int64_t more,
                     int64_t blocks) {
  RunPlan plan = with_more;
  const auto extend = [&](auto member) {
    const auto& from = member(with_few);
    auto& to = member(plan);
    to += (to - from) / (more - few) * (blocks - more);
  };
  for (int64_t RunPlan::*bytes :
       {&RunPlan::parameters, &RunPlan::frozen, &RunPlan::parameter_bytes, &RunPlan::frozen_bytes,
        &RunPlan::optimizer_bytes, &RunPlan::optimizer_on_host, &RunPlan::master_bytes,
        &RunPlan::gradient_bytes, &RunPlan::batch_bytes, &RunPlan::ahead_bytes,
        &RunPlan::read_bytes, &RunPlan::whole_bytes, &RunPlan::snapshot_bytes}) {
    extend([=](auto& of) -> auto& { return of.*bytes; });
  }
  for (ProgramMemory RunPlan::*program : {&RunPlan::step, &RunPlan::evaluation}) {
    // Packed weights grow with the blocks until they meet their limit: the rest is what grows on.
    ProgramMemory& to = plan.*program;
    ProgramMemory from = with_few.*program;
    const int64_t packed = to.packed;
    const int64_t grown = packed - from.packed;
    for (ProgramMemory* it : {&from, &to}) {
      it->arena -= it->packed;
      it->workspace -= it->packed;
    }
    if (grown > 0 && packed + grown <= plan.packed_limit) {
      to.packed = std::min(plan.packed_limit, packed + grown / (more - few) * (blocks - more));
    }
    for (int64_t ProgramMemory::*bytes :
         {&ProgramMemory::inputs, &ProgramMemory::outputs, &ProgramMemory::arena,
          &ProgramMemory::gradients, &ProgramMemory::saved, &ProgramMemory::transient,
          &ProgramMemory::workspace, &ProgramMemory::host}) {
      to.*bytes += (to.*bytes - from.*bytes) / (more - few) * (blocks - more);
    }
    to.arena += to.packed;
    to.workspace += to.packed;
  }
  extend([](auto& of) -> auto& { return of.cost.flops; });
  extend([](auto& of) -> auto& { return of.cost.bytes; });
  extend([](auto& of) -> auto& { return of.cost.kernels; });
  extend([](auto& of) -> auto& { return of.cost.seconds; });
  extend([](auto& of) -> auto& { return of.cost.link_bytes; });
  return plan;
}

Changes fitting_changes(const std::vector<std::vector<Overrides>>& candidates,
                        const PlanWith& plan_with, int64_t limit) {
  Changes out;
  const auto fits = [&](const Overrides& overrides) {
    Alternative made{overrides, plan_with(overrides)};
    if (!out.least || made.plan.total() < out.least->plan.total()) {
      out.least = made;
    }
    return made.plan.total() <= limit ? std::optional(std::move(made)) : std::nullopt;
  };
  for (const std::vector<Overrides>& kind : candidates) {
    if (kind.empty() || out.fitting.size() == 3) {
      continue;
    }
    // Memory falls along a kind: the mildest that fits lies between `too_mild` and `enough`.
    std::optional<Alternative> mildest = fits(kind.back());
    int64_t too_mild = -1;
    auto enough = static_cast<int64_t>(kind.size()) - 1;
    while (mildest && enough - too_mild > 1) {
      const int64_t middle = (too_mild + enough) / 2;
      if (auto fitting = fits(kind[static_cast<size_t>(middle)])) {
        mildest = std::move(fitting);
        enough = middle;
      } else {
        too_mild = middle;
      }
    }
    if (mildest) {
      out.fitting.push_back(std::move(*mildest));
    }
  }
  return out;
}

}  // namespace mstrain
