// What the machine's multiply-adds could do, and what matrix products reach of it: a loop in registers for the instruction set
// in use (MSTRAIN_ISA) and, in turns with it, the products of training steps by this project's kernel and by oneDNN alone. f32.
// Usage: bench_products [threads] [products whose name holds this, or one of one's own: 704x256x8192, with "a" and "b" after it where
// these are transposed]. Products of few rows with a transposed b, as in writing, are made as a context that is batch_invariant has them.
#include <fmt/core.h>
#include <omp.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "benchmarks/product_rate.h"
#include "benchmarks/run_main.h"
#include "core/base/isa.h"
#include "core/ir/backend.h"
#include "core/ops/dot_general.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Twelve sums that do not wait for each other: more than a multiply-add's latency times how many begin in a cycle. They begin
// with different numbers, or compilers make one of them.
constexpr int kSums = 12;
#define MSTRAIN_SPIN(name, attributes, bytes)                                            \
  attributes [[gnu::noinline]] double name(int64_t rounds) {                             \
    typedef float Lanes __attribute__((vector_size(bytes)));                             \
    Lanes sums[kSums];                                                                   \
    for (int i = 0; i < kSums; ++i) {                                                    \
      sums[i] = Lanes{} + static_cast<float>(i);                                         \
    }                                                                                    \
    const Lanes factor = Lanes{} + 0.999F;                                               \
    for (int64_t i = 0; i < rounds; ++i) {                                               \
      _Pragma("GCC unroll 12") for (Lanes & sum : sums) { sum = sum * factor + factor; } \
    }                                                                                    \
    double total = 0;                                                                    \
    for (const Lanes& sum : sums) {                                                      \
      total += static_cast<double>(sum[0]);                                              \
    }                                                                                    \
    return total;                                                                        \
  }
#if defined(__x86_64__)
MSTRAIN_SPIN(spin_avx2, __attribute__((target("avx2,fma"), optimize("O3"))), 32)
MSTRAIN_SPIN(spin_avx512, __attribute__((target("avx512f"), optimize("O3"))), 64)
#else
MSTRAIN_SPIN(spin_baseline, , 16)
#endif

// FLOP/s of `threads` at once: the median of some runs.
double peak(int threads) {
  constexpr int64_t kRounds = 2'000'000;
  const auto [spin, lanes] = [] {
#if defined(__x86_64__)
    return isa() >= Isa::kAvx512 ? std::pair(&spin_avx512, 16) : std::pair(&spin_avx2, 8);
#else
    return std::pair(&spin_baseline, 4);
#endif
  }();
  std::array<double, 5> seconds{};
  double kept = 0;
  for (double& run : seconds) {
    const auto begin = Clock::now();
#pragma omp parallel num_threads(threads) reduction(+ : kept)
    kept += spin(kRounds);
    run = seconds_since(begin);
  }
  check(kept > 0, "no sums");
  std::nth_element(seconds.begin(), seconds.begin() + 2, seconds.end());
  return 2.0 * lanes * kSums * static_cast<double>(kRounds) * threads / seconds[2];
}

struct Shape3 {
  const char* what;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  bool batch_invariant = false;
};

Buffer buffer_of(int64_t bytes) {
  Buffer buffer = Buffer::allocate(current_context().allocator, std::max<int64_t>(bytes, 64));
  uint32_t state = 1;
  for (int64_t i = 0; i < bytes / 4; ++i) {
    state = state * 1664525U + 1013904223U;
    reinterpret_cast<float*>(buffer.data())[i] = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
  }
  return buffer;
}

// The median of some runs of our kernel. `kept`: b is packed beforehand, as weights are that several micro-batches share.
double own_seconds(const Shape3& s, int threads, bool kept) {
  const auto matrix = [](int64_t rows, int64_t columns) {
    return ViewType::dense({Dtype::kF32, {rows, columns}});
  };
  const std::array<ViewType, 2> inputs{s.transpose_a ? matrix(s.k, s.m) : matrix(s.m, s.k),
                                       s.transpose_b ? matrix(s.n, s.k) : matrix(s.k, s.n)};
  const ViewType out = matrix(s.m, s.n);
  const Attrs attrs{
      {"dims", fmt::format("{},{}->ac", s.transpose_a ? "ba" : "ab", s.transpose_b ? "cb" : "bc")}};
  const Kernel kernel = find_kernel(backend_named("cpu"), kDotGeneral)
                            ->prepare({kDotGeneral,
                                       attrs,
                                       inputs,
                                       std::span(&out, 1),
                                       threads,
                                       kept ? 0b10U : 0U,
                                       {},
                                       s.batch_invariant});
  const Buffer a = buffer_of(4 * s.m * s.k), b = buffer_of(4 * s.k * s.n),
               c = buffer_of(4 * s.m * s.n), workspace = buffer_of(kernel.workspace_bytes),
               packed = buffer_of(kernel.packed.bytes);
  if (kernel.packed.input >= 0) {
    kernel.packed.pack(b.data(), packed.data());
  }
  void* const in[] = {a.data(), b.data()};
  void* const to = c.data();
  std::vector<double> times;
  for (int run = 0; run < 7; ++run) {
    const auto begin = Clock::now();
    int runs = 0;
    do {
      kernel.run({in, std::span(&to, 1), workspace.data(), packed.data()});
      ++runs;
    } while (seconds_since(begin) < 0.01);
    times.push_back(seconds_since(begin) / runs);
  }
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

// Tiny: 12 x 64 positions of 128; baby: 16 x 256 of 384; small: 4 x 256 of 768; vit: 16 x 197 of 192.
std::vector<Shape3> shapes() {
  std::vector<Shape3> result;
  for (const auto& [name, rows, width] : {std::tuple("tiny", int64_t{768}, int64_t{128}),
                                          {"baby", 4096, 384},
                                          {"small", 1024, 768},
                                          {"vit", 3152, 192}}) {
    result.push_back({name, rows, 3 * width, width, false, false});
    result.push_back({name, rows, width, 4 * width, false, false});
    result.push_back({name, rows, width, 3 * width, false, true});
    result.push_back({name, rows, 4 * width, width, false, true});
    result.push_back({name, width, 4 * width, rows, true, false});
    result.push_back({name, width, width, rows, true, false});
  }
  // Of 128 rows of which a token is written, and the gradients of their weights (grpo_vs_trl.py).
  for (const auto& [in, out] : {std::pair(256, 704), {704, 256}, {256, 256}, {256, 128}}) {
    result.push_back({"writing", 128, out, in, false, true, true});
    result.push_back({"grpo", out, in, 8192, true, false});
  }
  return result;
}

// A product of one's own, as the head of this file says; none where `text` is no such thing.
std::optional<Shape3> shape_of(const std::string& text) {
  Shape3 s{"own", 0, 0, 0, false, false};
  char which[3] = "";
  if (std::sscanf(text.c_str(), "%ldx%ldx%ld%2s", &s.m, &s.n, &s.k, which) < 3) {
    return {};
  }
  s.transpose_a = std::strchr(which, 'a') != nullptr;
  s.transpose_b = std::strchr(which, 'b') != nullptr;
  s.batch_invariant = s.m <= 256 && s.transpose_b;
  return s;
}

int run(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : current_context().num_threads();
  check(threads > 0, "usage: bench_products [threads] [name]");
  const std::string wanted = argc > 2 ? argv[2] : "";
  const std::optional<Shape3> own = shape_of(wanted);
  backend_named("cpu")->prepare_threads(threads);
  fmt::print("{}, {} threads; GFLOP/s, and the share of those in registers at that time\n",
             to_string(isa()), threads);
  fmt::print("{:<22} {:>5} {:>5} {:>5}   {:>9}   {:>14}   {:>14}   {:>14}\n", "product", "m", "n",
             "k", "registers", "own kernel", "own, b packed", "oneDNN");
  for (const Shape3& s : own ? std::vector{*own} : shapes()) {
    const std::string name = fmt::format("{}{}{}", s.what, s.transpose_a ? ", a transposed" : "",
                                         s.transpose_b ? ", b transposed" : "");
    if (!own && name.find(wanted) == name.npos) {
      continue;
    }
    const double flops = 2.0 * static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
    const double limit = peak(threads);
    fmt::print("{:<22} {:>5} {:>5} {:>5}   {:>9.1f}", name, s.m, s.n, s.k, limit / 1e9);
    for (const double seconds :
         {own_seconds(s, threads, false), own_seconds(s, threads, true),
          product_seconds(1, s.m, s.n, s.k, s.transpose_a, s.transpose_b, threads)}) {
      fmt::print("   {:>6.1f} ({:>3.0f} %)", flops / seconds / 1e9, 100 * flops / seconds / limit);
    }
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
