#include "core/data/shuffle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace mstrain {
namespace {

TEST(Permutation, VisitsEachIndexOnce) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= 130; ++size) {
    sizes.push_back(size);
  }
  for (int64_t size : {255, 256, 257, 1000, 65535, 65537, 123457}) {
    sizes.push_back(size);
  }
  for (const int64_t size : sizes) {
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      const Permutation order(size, /*seed=*/11, /*stream=*/5, epoch);
      std::vector<bool> seen(size);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t at = order(i);
        ASSERT_TRUE(at >= 0 && at < size && !seen[at]) << size << " " << i;
        seen[at] = true;
      }
    }
  }
}

TEST(Permutation, HugeDomainsStayInsideAndDistinct) {
  const int64_t size = int64_t{1} << 62;
  const Permutation order(size, 1, 2, 3);
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    seen.push_back(order(i));
    seen.push_back(order(size - 1 - i));
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_GE(seen.front(), 0);
  EXPECT_LT(seen.back(), size);
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(Permutation, SeedStreamAndEpochEachChangeTheOrder) {
  const auto first = [](uint64_t seed, uint64_t stream, uint64_t epoch) {
    const Permutation order(1000, seed, stream, epoch);
    std::vector<int64_t> out;
    for (int64_t i = 0; i < 50; ++i) {
      out.push_back(order(i));
    }
    return out;
  };
  EXPECT_EQ(first(1, 1, 1), first(1, 1, 1));
  EXPECT_NE(first(1, 1, 1), first(2, 1, 1));
  EXPECT_NE(first(1, 1, 1), first(1, 2, 1));
  EXPECT_NE(first(1, 1, 1), first(1, 1, 2));
}

// Over many epochs each index takes each place equally often: chi-squared with (n - 1)^2 degrees of
// freedom.
TEST(Permutation, PlacesAreUniform) {
  for (const int64_t size : {2, 3, 5, 7, 10, 16}) {
    constexpr int kEpochs = 8000;
    std::vector<int> count(size * size);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const Permutation order(size, 3, 0, epoch);
      for (int64_t i = 0; i < size; ++i) {
        ++count[i * size + order(i)];
      }
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
    double chi2 = 0;
    for (const int c : count) {
      chi2 += (c - expected) * (c - expected) / expected;
    }
    const auto freedom = static_cast<double>((size - 1) * (size - 1));
    EXPECT_LT(chi2, freedom + 5 * std::sqrt(2 * freedom) + 5) << size;  // five standard deviations
  }
}

// Neighbours must not stay together: the mean distance of successive places is a third of the size.
TEST(Permutation, NeighboursAreScattered) {
  const int64_t size = 100003;
  const Permutation order(size, 9, 0, 0);
  double sum = 0;
  for (int64_t i = 1; i < size; ++i) {
    sum += std::abs(static_cast<double>(order(i) - order(i - 1)));
  }
  EXPECT_NEAR(sum / (size - 1) / size, 1.0 / 3, 0.01);
}

TEST(Permutation, RefusesWhatIsOutside) {
  EXPECT_THROW(Permutation(0, 1, 1, 1), Error);
  const Permutation order(10, 1, 1, 1);
  EXPECT_THROW(order(10), Error);
  EXPECT_THROW(order(-1), Error);
}

TEST(Blend, EverySourceCountsUpWithoutGapsAndKeepsItsShare) {
  const std::vector<double> cases[] = {
      {1},           {1, 1}, {3, 1}, {0.7, 0.2, 0.1}, {1e-9, 1}, {1, 1e-9}, {5, 3, 2, 1, 1, 0.01},
      {1e300, 1e300}};
  for (const auto& weights : cases) {
    const Blend blend(weights);
    double total = 0;
    for (const double weight : weights) {
      total += weight / weights[0];
    }
    std::vector<int64_t> next(weights.size());
    for (int64_t i = 0; i < 20000; ++i) {
      const Blend::Place place = blend.locate(i);
      ASSERT_EQ(place.index, next[place.source]++);
      for (size_t s = 0; i % 97 == 0 && s < weights.size(); ++s) {
        const double share = weights[s] / weights[0] / total;
        ASSERT_NEAR(static_cast<double>(next[s]), share * static_cast<double>(i + 1),
                    static_cast<double>(weights.size()));
      }
    }
  }
}

TEST(Blend, AnyPositionIsFoundWithoutTheOnesBefore) {
  const std::vector<double> weights{0.5, 0.3, 0.2};
  const Blend blend(weights);
  const int64_t far = int64_t{1} << 60;
  int64_t count[3] = {};
  for (int64_t i = 0; i < 1000; ++i) {
    ++count[blend.locate(far + i).source];
  }
  EXPECT_NEAR(static_cast<double>(count[0]), 500, 3);
  EXPECT_NEAR(static_cast<double>(count[2]), 200, 3);
}

TEST(Blend, RefusesBadWeights) {
  EXPECT_THROW(Blend(std::vector<double>{}), Error);
  EXPECT_THROW(Blend(std::vector<double>{1, 0}), Error);
  EXPECT_THROW(Blend(std::vector<double>{-1}), Error);
  EXPECT_THROW(Blend(std::vector<double>{NAN}), Error);
  EXPECT_THROW(Blend(std::vector<double>{INFINITY}), Error);
}

}  // namespace
}  // namespace mstrain
