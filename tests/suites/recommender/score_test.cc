#include "suites/recommender/run/score.h"

#include <gtest/gtest.h>

#include <string>

namespace mstrain::recommender {
namespace {

TEST(Score, TellsProbabilitiesNearBothEndsApart) {
  double before = -1;
  for (int log_odds = -40; log_odds <= 36; ++log_odds) {
    const double p = std::stod(probability_line(log_odds));
    EXPECT_GT(p, before) << log_odds;
    before = p;
  }
  EXPECT_EQ(probability_line(0), "0.5\n");
}

}  // namespace
}  // namespace mstrain::recommender
