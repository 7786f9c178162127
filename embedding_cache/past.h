// What rows miss that no batch holds, where a segment learns at every step (OptimizerOptions::l2_of): the steps of a table so far. A row goes
// through those that it missed when it is read, each as if by gradients of zero, and has the bits of one that learned at every step.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "embedding_cache/cache.h"

namespace mstrain::embedding_cache {

class Past {
 public:
  explicit Past(RowLayout layout);

  const std::vector<PastStep>& steps() const { return steps_; }
  // Later than all there are. Nothing is kept of tables whose rows learn with their batches alone.
  void add(const PastStep& step);
  void add(std::span<const PastStep> steps);

  bool is_any_late(std::span<std::byte* const> records) const;
  // Thread-safe, as long as nothing is added.
  void catch_up(std::span<std::byte* const> records) const;
  // The record as it is where it has gone through all steps: itself, or what is then in `space`.
  const std::byte* caught_up(const std::byte* record, std::vector<std::byte>& space) const;

 private:
  RowKernel kernel_of(const PastStep& step) const;
  bool is_late(const std::byte* record) const {
    return !steps_.empty() && layout_.until(record) < steps_.back().step;
  }

  RowLayout layout_;
  std::vector<float> no_gradient_;
  std::vector<PastStep> steps_;
  std::deque<RowKernel> kernels_;  // of the newest steps, which most rows miss alone
};

}  // namespace mstrain::embedding_cache
