// What cards compute of what they exchange, against the communicators' own loop.
#include <gmock/gmock.h>

#include <random>

#include "core/backends/cuda/exchange_kernels.h"
#include "core/comm/sums.h"
#include "core/runtime/dtype.h"
#include "tests/core/backends/cuda/emulated.h"

namespace mstrain::cuda {
namespace {

constexpr int64_t kPieces = 3, kCount = 301;
constexpr uint64_t kSeed = 71;

// Small numbers with fractions where there are such, zeros of both signs among them.
std::vector<std::byte> numbers(Dtype dtype, int64_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(static_cast<size_t>(count * size_of(dtype)));
  visit_dtype(dtype, [&]<class T>(T) {
    auto* const to = reinterpret_cast<T*>(bytes.data());
    for (int64_t i = 0; i < count; ++i) {
      const auto drawn = static_cast<int64_t>(random() % 2001) - 1000;
      if constexpr (std::is_same_v<T, bool>) {
        to[i] = drawn > 300;
      } else if constexpr (std::is_integral_v<T>) {
        to[i] = static_cast<T>(random());
      } else {
        to[i] =
            T(static_cast<float>(drawn % 7 == 0 ? 0 : drawn) * (drawn < 0 ? -0.0371F : 0.0113F));
      }
    }
  });
  return bytes;
}

struct Sums {
  std::vector<std::byte> by_text, by_loop;
};

Sums summed(Reduction how, Dtype dtype, std::optional<Dtype> initial) {
  std::mt19937_64 random(kSeed);
  const Dtype held = initial.value_or(dtype);
  std::vector<std::byte> pieces = numbers(dtype, kPieces * kCount, random);
  std::vector<std::byte> begin = numbers(held, kCount, random);
  Sums out{std::vector<std::byte>(begin.size()), std::vector<std::byte>(begin.size())};

  std::vector<const void*> each;
  for (int64_t p = 0; p < kPieces; ++p) {
    each.push_back(pieces.data() + p * kCount * size_of(dtype));
  }
  reduce_in_order(how, dtype, each, initial ? Elements{begin.data(), kCount, held} : Elements{},
                  {out.by_loop.data(), kCount, held});

  const OpDef& op = *find_op("all_reduce");
  const Attrs attrs;
  const KernelText text =
      named(print_ordered_sum({how, dtype, kPieces, kCount, initial}, {op, attrs, {}, {}}));
  std::vector<emulator::Region> regions = {{"pieces", pieces.data(), pieces.size(), false},
                                           {"sum", out.by_text.data(), out.by_text.size(), true}};
  std::vector<void*> pointers = {pieces.data()};
  if (initial) {
    regions.push_back({"initial", begin.data(), begin.size(), false});
    pointers.push_back(begin.data());
  }
  pointers.push_back(out.by_text.data());
  KernelLibrary(text.text).run(
      {text.launches[0].name, static_cast<unsigned>(text.launches[0].blocks),
       static_cast<unsigned>(text.launches[0].threads)},
      regions, pointers);
  return out;
}

TEST(CudaExchange, OrderedSumsHaveTheBitsOfTheCommunicators) {
  for (Dtype dtype : {Dtype::kF64, Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kI64, Dtype::kI32,
                      Dtype::kU8, Dtype::kBool}) {
    const Sums sums = summed(Reduction::kSum, dtype, std::nullopt);
    EXPECT_EQ(sums.by_text, sums.by_loop) << name_of(dtype);
  }
  for (const auto& [dtype, initial] : {std::pair(Dtype::kF32, Dtype::kF32),
                                       {Dtype::kBF16, Dtype::kBF16},
                                       {Dtype::kBF16, Dtype::kF32},
                                       {Dtype::kF16, Dtype::kF16}}) {
    const Sums sums = summed(Reduction::kSum, dtype, initial);
    EXPECT_EQ(sums.by_text, sums.by_loop) << name_of(dtype) << " into " << name_of(initial);
  }
}

TEST(CudaExchange, ExtremaHaveTheBitsOfTheCommunicators) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kI32, Dtype::kBool}) {
    for (Reduction how : {Reduction::kMax, Reduction::kMin}) {
      const Sums sums = summed(how, dtype, std::nullopt);
      EXPECT_EQ(sums.by_text, sums.by_loop) << name_of(dtype);
    }
  }
}

TEST(CudaExchange, NothingIsAddedUpByNoKernel) {
  const Attrs attrs;
  EXPECT_TRUE(
      print_ordered_sum({.count = 0}, {*find_op("all_reduce"), attrs, {}, {}}).launches.empty());
}

}  // namespace
}  // namespace mstrain::cuda
