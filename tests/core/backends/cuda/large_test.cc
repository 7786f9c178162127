// Texts of what is larger than a test can fill: that they are printed, and kernels of them that touch little.
#include <gtest/gtest.h>
#include <sys/mman.h>

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

TEST(CudaLarge, WindowsArePooledBeyondTheNumbersOfAnInt) {
  constexpr int64_t kHeight = 65536, kWidth = 32769;  // 2^31 + 2^16 elements
  constexpr size_t kBytes = kHeight * kWidth * 2;
  constexpr uint16_t kOne = 0x3f80;
  Attrs attrs;
  attrs.set("window", Shape{2, 2});
  attrs.set("stride", Shape{kHeight - 2, kWidth - 2});
  attrs.set("padding", Shape{0, 0, 0, 0});
  const KernelText text = printed("max_pool", attrs, {{Dtype::kBF16, {1, 1, kHeight, kWidth}}},
                                  {{Dtype::kBF16, {1, 1, 2, 2}}});
  // Zeros, which take no memory.
  void* const x = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(x, MAP_FAILED);
  static_cast<uint16_t*>(x)[kHeight * kWidth - 1] = kOne;
  std::vector<uint16_t> y(4, kOne);
  Report report;
  void* const pointers[] = {x, y.data(), nullptr, &report, nullptr};
  const KernelLaunch& launch = text.launches.at(0);
  KernelLibrary(text.text).run({.name = launch.name,
                                .blocks = static_cast<unsigned>(launch.blocks),
                                .threads = static_cast<unsigned>(launch.threads),
                                .checked = false},
                               {}, pointers);
  munmap(x, kBytes);
  EXPECT_EQ(y, (std::vector<uint16_t>{0, 0, 0, kOne}));
}

}  // namespace
}  // namespace mstrain::cuda
