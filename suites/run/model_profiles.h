// What programs of a run's model take under layouts, told by those of the same model with a few blocks.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "core/forecast/layout.h"
#include "core/forecast/profile.h"
#include "suites/run/model_run.h"

namespace mstrain {

// Each is read once. `tree` must outlive it.
class ModelProfiles {
 public:
  // `run`: of `tree`, settled for so many `ids`.
  ModelProfiles(const ModelRun& run, const YamlNode& tree, int64_t ids, const Context& context);

  // Of micro-batches of steps. `in_parts`: of ranks that share sequences, where samples may not be together.
  const Profile& of(int64_t micro, Recompute recompute, bool in_parts);
  // Arena and results of an evaluation on a rank, in bytes, as if it had all layers, whose weights are not in parts along data.
  double evaluation(const RunLayout& layout);

 private:
  // Of an encoder with a decoder half of them are of each.
  static constexpr int64_t kFewBlocks = 2;
  static constexpr int64_t kBlocks = 8;

  std::unique_ptr<ModelRun> with_changes(const Overrides& changes) const;
  // Of micro-batches of a size, on one rank.
  std::unique_ptr<ModelRun> with_micro(int64_t micro, const Overrides& more) const;
  Profile read(int64_t micro, Recompute recompute, bool in_parts) const;

  const YamlNode& tree_;
  int64_t ids_;
  Context context_;
  Overrides model_;
  std::vector<bool> in_blocks_;
  int64_t together_ = 1;
  std::map<std::tuple<int64_t, Recompute, bool>, Profile> known_;
  std::map<std::tuple<int64_t, int64_t, int64_t, bool>, double> evaluations_;
};

}  // namespace mstrain
