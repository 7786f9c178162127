#include "core/forecast/measured_layers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mstrain {
namespace {

constexpr double kFewer = 2.0 / (14 * 64);  // scores of an operation of heads of 64
constexpr double kMore = 2.0 / (14 * 32);

TEST(MeasuredLayers, TimeOfAttentionIsSplitIntoOperationsAndScores) {
  const AttentionTime split =
      split_attention({3e-11 + 2e-9 * kFewer, kFewer}, {3e-11 + 2e-9 * kMore, kMore}, 1e-11);
  EXPECT_NEAR(split.of_operation, 3e-11, 1e-20);
  EXPECT_NEAR(split.of_score, 2e-9, 1e-18);
}

// Whatever disturbed one of the measurements, rates are some that a cluster may have.
TEST(MeasuredLayers, TimeOfAttentionHasNoPartBelowNothing) {
  constexpr double kLeast = 1e-11;
  for (const double larger : {0.5e-11, 1e-11, 3e-11, 40e-11}) {
    for (const double smaller : {0.1e-11, 1e-11, 3e-11, 9e-11, 500e-11}) {
      const AttentionTime split = split_attention({larger, kFewer}, {smaller, kMore}, kLeast);
      EXPECT_GE(split.of_operation, std::min(larger, kLeast) * (1 - 1e-9))
          << larger << " " << smaller;
      EXPECT_GE(split.of_score, 0) << larger << " " << smaller;
      EXPECT_NEAR(split.of_operation + split.of_score * kFewer, larger, larger * 1e-9);
    }
  }
}

}  // namespace
}  // namespace mstrain
