#include "core/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/error.h"

namespace mstrain {
namespace {

// Known answers: Random123, tests/kat_vectors, philox4x32 10.
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (PhiloxCounter{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(
      philox({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
      (PhiloxCounter{0xd16cfe09U, 0x94fdcceb, 0x5001e420U, 0x24126ea1U}));
}

TEST(Rng, DrawsTheBlocksOfPhiloxInOrder) {
  Rng rng(0x123456789abcdef0U, 5);
  for (uint64_t block = 0; block < 3; ++block) {
    for (uint32_t word : philox(philox_counter(block, 5), philox_key(0x123456789abcdef0U))) {
      EXPECT_EQ(rng.next_u32(), word);
    }
  }
}

TEST(Rng, RestoredStateContinues) {
  Rng rng(42);
  for (int taken = 0; taken < 9; ++taken) {
    Rng restored(rng.state());
    Rng copy = rng;
    EXPECT_EQ(restored.next_u64(), copy.next_u64());
    rng.next_u32();
  }
}

TEST(Rng, StreamsAndSeedsDiffer) {
  EXPECT_NE(Rng(1).next_u64(), Rng(2).next_u64());
  EXPECT_NE(Rng(1, 0).next_u64(), Rng(1, 1).next_u64());
}

TEST(Rng, UniformAndNormalHaveTheirMoments) {
  Rng rng(7);
  const int n = 100000;
  double sum = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    const double z = rng.normal();
    normal_sum += z;
    normal_squares += z * z;
  }
  // Five standard errors.
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(normal_sum / n, 0.0, 5 / std::sqrt(n));
  EXPECT_NEAR(normal_squares / n, 1.0, 5 * std::sqrt(2.0 / n));
}

TEST(Rng, BelowIsUnbiased) {
  Rng rng(11);
  std::vector<int> counts(6);
  const int n = 60000;
  for (int i = 0; i < n; ++i) {
    ++counts[rng.below(6)];
  }
  double chi_squared = 0;
  for (int count : counts) {
    chi_squared += std::pow(count - n / 6.0, 2) / (n / 6.0);
  }
  EXPECT_LT(chi_squared, 25.7);  // 99.99 % of 5 degrees of freedom
  // Two thirds of the range of 64 bits: a remainder would give the lower half twice as often as the rest.
  const uint64_t wide = (uint64_t{1} << 63) + (uint64_t{1} << 62);
  int low = 0;
  for (int i = 0; i < 10000; ++i) {
    low += rng.below(wide) < wide / 2 ? 1 : 0;
  }
  EXPECT_NEAR(low, 5000, 250);
  EXPECT_EQ(rng.below(1), 0U);
  EXPECT_THROW(rng.below(0), Error);
}

TEST(Rng, BetweenIncludesBothEnds) {
  Rng rng(3);
  std::vector<int> counts(5);
  for (int i = 0; i < 1000; ++i) {
    ++counts.at(static_cast<size_t>(rng.between(-2, 2) + 2));
  }
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 100);
  rng.between(INT64_MIN, INT64_MAX);
  EXPECT_THROW(rng.between(1, 0), Error);
}

TEST(Rng, ShuffleGivesEveryPermutation) {
  Rng rng(5);
  std::vector<int> counts(24);
  for (int i = 0; i < 24000; ++i) {
    std::vector<int> items{0, 1, 2, 3};
    rng.shuffle(items);
    int rank = 0;
    for (size_t j = 0; j < 4; ++j) {
      const auto smaller = std::count_if(items.begin() + static_cast<long>(j) + 1, items.end(),
                                         [&](int x) { return x < items[j]; });
      rank = rank * static_cast<int>(4 - j) + static_cast<int>(smaller);
    }
    ++counts.at(static_cast<size_t>(rank));
  }
  for (int count : counts) {
    EXPECT_NEAR(count, 1000, 160);  // five standard deviations
  }
}

}  // namespace
}  // namespace mstrain
