// Texts of what is larger than a test can fill.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/backends/cuda/printer.h"
#include "tests/core/backends/cuda/emulated.h"

namespace mstrain::cuda {
namespace {

KernelText printed(const char* op, const Attrs& attrs, const Types& inputs, const Types& outputs) {
  std::vector<ViewType> in, out;
  std::ranges::transform(inputs, std::back_inserter(in), ViewType::dense);
  std::ranges::transform(outputs, std::back_inserter(out), ViewType::dense);
  const KernelRequest request{*find_op(op), attrs, in, out};
  return named(entry_for(request, "sm_80")->print(request));
}

TEST(CudaLarge, RowsTakeMoreThanBlocksOfAGridCanSortAtOnce) {
  constexpr int64_t kIds = kMostBlocksOfKernel * 1024 + 1;
  Attrs attrs;
  attrs.set("axis", int64_t{0});
  const TensorType table{Dtype::kF32, {1000, 1}};
  // A kernel that does not take turns with so many is refused.
  const KernelText text = printed(
      "scatter_add", attrs, {table, {Dtype::kI32, {kIds}}, {Dtype::kF32, {kIds, 1}}}, {table});
  EXPECT_EQ(std::ranges::count(text.launches, kMostBlocksOfKernel, &KernelLaunch::blocks), 4);
}

}  // namespace
}  // namespace mstrain::cuda
