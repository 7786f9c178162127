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

// Of a warp group: out[64, 64] = a bᵀ, or aᵀ b where both are turned, of two tiles, which hold x(row, column) and y(row, column).
const KernelLibrary& warp_group_kernels() {
  static const KernelLibrary it(R"(
#include "core/backends/cuda/device/warp_group.cuh"
namespace mstrain::cuda {
#define KERNEL(name) extern "C" __global__ void name(const Pointers p)
float x(int row, int column) { return float((row * 3 + column) % 7 - 3); }
float y(int row, int column) { return float((row + column * 5) % 5 - 2); }
struct Tiles {
  Memory<uint16_t> a, b;
  float sums[8][4] = {};
  Fragment rows[4];
  int row = int(threadIdx.x) / 32 * 16 + int(threadIdx.x) % 32 / 4, column = int(threadIdx.x) % 4 * 2;
  explicit Tiles(const Memory<uint16_t>& shared) : a(shared), b(shared + 64 * 64) {
    for (int i = int(threadIdx.x); i < 64 * 64; i += 128) {
      a[swizzled(64, i / 64, i % 64)] = BF16::store(x(i / 64, i % 64));
      b[swizzled(64, i / 64, i % 64)] = BF16::store(y(i / 64, i % 64));
    }
    for (int step = 0; step < 4; ++step) {
      for (int i = 0; i < 4; ++i) {
        const int at = step * 16 + column + i / 2 * 8;
        rows[step].at[i] = packed<BF16>(x(row + i % 2 * 8, at), x(row + i % 2 * 8, at + 1));
      }
    }
  }
  void show() { show_to_products(); __syncthreads(); }
  template <bool turned>
  void begin() {
    const auto at = [&](const Memory<uint16_t>& tile, int step) {
      return turned ? operand_across(address_of(tile), 64, step) : operand_along(address_of(tile), 64, step);
    };
    begin_products(sums);
    for (int step = 0; step < 4; ++step) {
      multiply<BF16, turned, turned>(sums, at(a, step), at(b, step), step > 0);
    }
    end_products();
  }
  void begin_of_registers() {
    begin_products(sums, rows);
    for (int step = 0; step < 4; ++step) {
      multiply<BF16, false>(sums, rows[step], operand_along(address_of(b), 64, step), step > 0);
    }
    end_products();
  }
  void end(void* to) {
    finish_products<0>(sums);
    store(to);
  }
  void store(void* to) {
    const auto out = global<float>(to);
    for (int part = 0; part < 8; ++part) {
      for (int i = 0; i < 4; ++i) {
        out[(row + i / 2 * 8) * 64 + part * 8 + column + i % 2] = sums[part][i];
      }
    }
  }
};
#define TILES MSTRAIN_SHARED_BLOCK(uint16_t, shared, 2 * 64 * 64 * 2); Tiles tiles(shared)
KERNEL(multiplies) { TILES; tiles.show(); tiles.begin<false>(); tiles.end(p.at[0]); }
KERNEL(multiplies_turned) { TILES; tiles.show(); tiles.begin<true>(); tiles.end(p.at[0]); }
KERNEL(multiplies_registers) { TILES; tiles.show(); tiles.begin_of_registers(); tiles.end(p.at[0]); }
KERNEL(reads_sums_too_early) { TILES; tiles.show(); tiles.begin<false>(); tiles.store(p.at[0]); }
KERNEL(shows_nothing) { TILES; __syncthreads(); tiles.begin<false>(); tiles.end(p.at[0]); }
KERNEL(overwrites_a_tile) {
  TILES;
  tiles.show();
  tiles.begin<false>();
  tiles.b[int(threadIdx.x)] = uint16_t(0);
  __syncthreads();
  tiles.end(p.at[0]);
}
KERNEL(changes_registers) { TILES; tiles.show(); tiles.begin_of_registers(); tiles.rows[2].at[1] = 0; tiles.end(p.at[0]); }
KERNEL(changes_sums) { TILES; tiles.show(); tiles.begin<false>(); tiles.sums[3][2] = 1; tiles.end(p.at[0]); }
KERNEL(begins_within_a_tile) {
  TILES;
  tiles.show();
  begin_products(tiles.sums);
  multiply<BF16, false, true>(tiles.sums, operand_along(address_of(tiles.a), 64, 0),
                              operand_across(address_of(tiles.b) + 128, 64, 0), false);
  end_products();
  tiles.end(p.at[0]);
}
// Thread 127 fills what the others read.
template <class F, class G>
void hands_over(void* to, const F& wait, const G& arrive_or_not) {
  MSTRAIN_SHARED_BLOCK(uint16_t, shared, 1024);
  const uint32_t barrier = address_of(shared) + 512;
  if (threadIdx.x == 0) { init_phases(barrier, 1); }
  __syncthreads();
  if (threadIdx.x == 127) {
    shared[0] = uint16_t(7);
    arrive_or_not(barrier);
  } else {
    wait(barrier);
    global<float>(to)[int(threadIdx.x)] = float(uint16_t(shared[0]));
  }
}
KERNEL(waits_for_a_phase) {
  hands_over(p.at[0], [](uint32_t b) { wait_for_phase(b, 0); }, [](uint32_t b) { arrive(b); });
}
KERNEL(does_not_wait) { hands_over(p.at[0], [](uint32_t) {}, [](uint32_t b) { arrive(b); }); }
KERNEL(never_arrives) { hands_over(p.at[0], [](uint32_t b) { wait_for_phase(b, 0); }, [](uint32_t) {}); }
KERNEL(forgets_a_barrier) { MSTRAIN_SHARED_BLOCK(uint16_t, shared, 16); arrive(address_of(shared)); }
}
)");
  return it;
}

std::vector<float> run_warp_group(const char* name, size_t shared_bytes = 2 * 64 * 64 * 2) {
  std::vector<float> out(64 * 64);
  const emulator::Region regions[] = {{"output", out.data(), out.size() * 4, true}};
  void* const pointers[] = {out.data()};
  warp_group_kernels().run({name, 1, 128, shared_bytes}, regions, pointers);
  return out;
}
std::string mistake_of_warp_group(const char* name, size_t shared_bytes = 2 * 64 * 64 * 2) {
  return error_of([&] { run_warp_group(name, shared_bytes); });
}

TEST(CudaEmulator, MultipliesTilesAsWarpGroupsDo) {
  const auto x = [](int row, int column) { return (row * 3 + column) % 7 - 3; };
  const auto y = [](int row, int column) { return (row + column * 5) % 5 - 2; };
  std::vector<float> along, across;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 64; ++column) {
      int sum = 0, turned = 0;
      for (int k = 0; k < 64; ++k) {
        sum += x(row, k) * y(column, k);
        turned += x(k, row) * y(k, column);
      }
      along.push_back(static_cast<float>(sum));
      across.push_back(static_cast<float>(turned));
    }
  }
  EXPECT_EQ(run_warp_group("multiplies"), along);
  EXPECT_EQ(run_warp_group("multiplies_turned"), across);
  EXPECT_EQ(run_warp_group("multiplies_registers"), along);
}

TEST(CudaEmulator, FindsWhatIsTouchedWhileProductsAreOnTheirWay) {
  EXPECT_TRUE(std::isnan(run_warp_group("reads_sums_too_early")[5]));
  EXPECT_THAT(mistake_of_warp_group("shows_nothing"), HasSubstr("was not shown to products"));
  EXPECT_THAT(mistake_of_warp_group("overwrites_a_tile"),
              HasSubstr("which another thread reads without a barrier"));
  EXPECT_THAT(mistake_of_warp_group("changes_registers"), HasSubstr("changes registers"));
  EXPECT_THAT(mistake_of_warp_group("changes_sums"), HasSubstr("changes sums"));
  EXPECT_THAT(mistake_of_warp_group("begins_within_a_tile"), HasSubstr("is no tile"));
  EXPECT_THAT(mistake_of_warp_group("multiplies", 1000), HasSubstr("and the launch gives it 1000"));
}

TEST(CudaEmulator, KnowsBarriersInSharedMemory) {
  EXPECT_EQ(run_warp_group("waits_for_a_phase")[100], 7);
  EXPECT_THAT(mistake_of_warp_group("does_not_wait"), HasSubstr("shared memory"));
  EXPECT_THAT(mistake_of_warp_group("never_arrives"), HasSubstr("at a barrier that others"));
  EXPECT_THAT(mistake_of_warp_group("forgets_a_barrier"), HasSubstr("nobody has initialised"));
}

}  // namespace
}  // namespace mstrain::cuda
