// Texts on their way to the card: compiled together when the first of them is to run.
#pragma once

#include "core/backends/cuda/driver.h"
#include "core/backends/cuda/text.h"

namespace mstrain::cuda {

// A kernel whose text is known, and that runs once it is compiled. A value; thread-safe.
class CardKernel {
 public:
  CardKernel() = default;
  explicit CardKernel(KernelText text);  // not yet named
  // Of an operation, which may join others.
  CardKernel(const KernelText& text, const KernelRequest& request);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  const std::vector<std::pair<int, int>>& in_place() const { return in_place_; }
  // Launches all that it is made of. Throws Error where a text does not compile.
  void launch(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace,
              Queue& queue) const;

 private:
  struct Program;
  friend class Programs;
  std::shared_ptr<Program> program_;
  std::vector<KernelLaunch> launches_;
  int64_t workspace_bytes_ = 0;
  std::vector<std::pair<int, int>> in_place_;
  uint64_t number_ = 0;
  std::vector<Reach> inputs_, outputs_;  // where it may join others
};
// Lays what `view` shows out in row-major order.
CardKernel dense_copy(const ViewType& view);

}  // namespace mstrain::cuda
