// Epilogues that no library makes with its product: elementwise kernels over the result.
#pragma once

#include "core/backends/cpu/kernels.h"
#include "core/ops/dot_general.h"

namespace mstrain::cpu {

class EpilogueSteps {
 public:
  // Of `request`, an application of dot_general, in this order.
  EpilogueSteps(const KernelRequest& request, std::span<const Epilogue> epilogues);

  bool empty() const { return steps_.empty(); }
  int64_t workspace_bytes() const;
  // Over the result in memory.outputs; `workspace` in place of that of `memory`.
  void run(const KernelMemory& memory, void* workspace) const;

 private:
  // `input` 0: none but the result, or `number`.
  struct Step {
    Kernel kernel;
    size_t input = 0;
    std::shared_ptr<std::array<std::byte, sizeof(double)>> number;
  };
  static Step make(const KernelRequest& request, const Epilogue& epilogue);

  std::vector<Step> steps_;
};

}  // namespace mstrain::cpu
