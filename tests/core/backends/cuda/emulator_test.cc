// The emulator runs CUDA's threads, and finds what a card would not say.
#include <gmock/gmock.h>

#include "tests/core/backends/cuda/emulated.h"
#include "tests/core/base/message_of.h"

namespace mstrain::cuda {
namespace {

using testing::HasSubstr;

// All kernels of these tests, compiled once: p.at[0] is an array of 64 int64_t to write, p.at[1] one of 64 to read.
const KernelLibrary& kernels() {
  static const KernelLibrary it(R"(
#include "core/backends/cuda/device/kernel.cuh"
namespace mstrain::cuda {
#define KERNEL(name) extern "C" __global__ void name(const Pointers p)
#define ARRAYS \
  const auto out = global<int64_t>(p.at[0]); const auto in = global<const int64_t>(p.at[1]); \
  const int thread = threadIdx.x; const int i = blockIdx.x * blockDim.x + thread
KERNEL(copies) { ARRAYS; out[i] = in[i]; }
KERNEL(turns_blocks) {
  ARRAYS;
  MSTRAIN_SHARED(int64_t, kept, 64);
  kept[thread] = in[i];
  __syncthreads();
  out[i] = kept[blockDim.x - 1 - thread];
}
KERNEL(turns_without_a_barrier) {
  ARRAYS;
  MSTRAIN_SHARED(int64_t, kept, 64);
  kept[thread] = in[i];
  out[i] = kept[blockDim.x - 1 - thread];
}
KERNEL(reads_what_nobody_wrote) {
  ARRAYS;
  MSTRAIN_SHARED(int64_t, kept, 64);
  out[i] = kept[thread];
}
KERNEL(overwrites_what_others_read) {
  ARRAYS;
  MSTRAIN_SHARED(int64_t, kept, 64);
  kept[thread] = in[i];
  __syncthreads();
  const int64_t other = kept[blockDim.x - 1 - thread];
  kept[thread] = other;
}
KERNEL(sums) { ARRAYS; out[i] = fold_block<Sum>(int64_t(in[i])); }
KERNEL(sums_twice) { ARRAYS; out[i] = fold_block<Sum>(fold_block<Sum>(int64_t(in[i]))); }
KERNEL(swaps_neighbours) { ARRAYS; out[i] = __shfl_xor_sync(0xffffffffU, int64_t(in[i]), 1); }
KERNEL(goes_past_the_end) { ARRAYS; out[i + 1] = in[i]; }
KERNEL(starts_before) { ARRAYS; out[i] = in[i - 1]; }
KERNEL(writes_its_input) { ARRAYS; global<int64_t>(p.at[1])[i] = 1; }
KERNEL(writes_one_place) { ARRAYS; out[0] = i; }
KERNEL(writes_a_place_of_each_thread) { ARRAYS; out[thread] = i; }
KERNEL(leaves_a_barrier_out) { ARRAYS; if (thread != 5) { __syncthreads(); } }
KERNEL(leaves_a_shuffle_out) {
  ARRAYS;
  if (thread != 35) { out[i] = __shfl_xor_sync(0xffffffffU, int64_t(1), 1); }
}
}
)");
  return it;
}

// The array after a launch in which it holds 0 and the input 0, 1, 2, …
std::vector<int64_t> run(const char* name, unsigned blocks, unsigned threads) {
  std::vector<int64_t> out(64), in(64);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<int64_t>(i);
  }
  const emulator::Region regions[] = {{"output", out.data(), 512, true}, {"input", in.data(), 512}};
  void* const pointers[] = {out.data(), in.data()};
  kernels().run({name, blocks, threads}, regions, pointers);
  return out;
}
std::string mistake_of(const char* name, unsigned blocks = 1, unsigned threads = 64) {
  return error_of([&] { run(name, blocks, threads); });
}

TEST(CudaEmulator, RunsEveryThreadOfEveryBlock) {
  const std::vector<int64_t> out = run("copies", 2, 32);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out[i], static_cast<int64_t>(i));
  }
}

TEST(CudaEmulator, BarriersMakeSharedMemoryKnown) {
  const std::vector<int64_t> out = run("turns_blocks", 1, 64);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out[i], static_cast<int64_t>(63 - i));
  }
  EXPECT_EQ(run("turns_blocks", 2, 32)[32], 63);
}

TEST(CudaEmulator, ShufflesAndFoldsSeeTheWholeWarpAndBlock) {
  EXPECT_EQ(run("swaps_neighbours", 1, 64)[41], 40);
  for (int64_t value : run("sums", 1, 64)) {
    EXPECT_EQ(value, 63 * 32);
  }
  EXPECT_EQ(run("sums_twice", 1, 64)[7], 64 * 63 * 32);
  const std::vector<int64_t> two = run("sums", 2, 32);
  EXPECT_EQ(two[0], 31 * 16);
  EXPECT_EQ(two[63], 63 * 32 - 31 * 16);
}

TEST(CudaEmulator, NamesAccessesOutsideBuffers) {
  EXPECT_EQ(mistake_of("goes_past_the_end"),
            "goes_past_the_end: thread 63 of block 0 writes 8 bytes 0 past the end of output");
  EXPECT_THAT(mistake_of("starts_before"), HasSubstr("thread 0 of block 0 reads 8 bytes"));
  EXPECT_THAT(mistake_of("writes_its_input"), HasSubstr("writes to input, which is read alone"));
}

TEST(CudaEmulator, FindsRacesWithinABlockAndBetweenBlocks) {
  EXPECT_THAT(mistake_of("writes_one_place"),
              HasSubstr("thread 1 of block 0 writes byte 0 of output, which thread 0 of block 0 "
                        "writes without a barrier between"));
  EXPECT_THAT(
      mistake_of("writes_a_place_of_each_thread", 2, 32),
      HasSubstr("thread 31 of block 1 writes byte 248 of output, which thread 31 of block 0"));
  EXPECT_THAT(mistake_of("turns_without_a_barrier"), HasSubstr("shared memory"));
  EXPECT_THAT(mistake_of("overwrites_what_others_read"), HasSubstr("of shared memory, which"));
}

TEST(CudaEmulator, FindsSharedMemoryThatNobodyWrote) {
  EXPECT_THAT(mistake_of("reads_what_nobody_wrote"),
              HasSubstr("thread 0 of block 0 reads shared memory that nobody has written"));
}

TEST(CudaEmulator, FindsBarriersAndShufflesThatSomeThreadsLeaveOut) {
  EXPECT_THAT(mistake_of("leaves_a_barrier_out"),
              HasSubstr("at a barrier that others of its block do not reach"));
  EXPECT_THAT(mistake_of("leaves_a_shuffle_out"),
              HasSubstr("at a shuffle that others of its warp do not reach"));
  EXPECT_THAT(mistake_of("copies", 1, 33), HasSubstr("a block of 33 threads; whole warps"));
}

}  // namespace
}  // namespace mstrain::cuda
