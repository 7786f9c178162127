#include "suites/transformer/alignment/rewards.h"

#include <gmock/gmock.h>

namespace mstrain {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Rewards, AddUpByRule) {
  const Rewards rewards({{.type = RewardType::kExact, .weight = 2},
                         {.type = RewardType::kNumber, .weight = 0.5},
                         {.type = RewardType::kRegex, .weight = 0.25, .pattern = "^[0-9]+$"},
                         {.type = RewardType::kLength, .weight = 0.125, .at_most = 3}});
  EXPECT_EQ(rewards.of({"46", "46", 3}), 2.875);
  EXPECT_EQ(rewards.of({"it is 46", "46", 9}), 0.5);
  EXPECT_EQ(rewards.of({"47", "46", 2}), 0.375);
  EXPECT_EQ(rewards.of({"", "46", 4}), 0);
}

TEST(Rewards, PlacesArePartOfAnAnswer) {
  const Rewards rewards({{.type = RewardType::kPlaces, .weight = 3}});
  EXPECT_EQ(rewards.of({"146", "146", 3}), 3);
  EXPECT_EQ(rewards.of({"156", "146", 3}), 2);
  EXPECT_EQ(rewards.of({"46", "146", 2}), 0);
  EXPECT_EQ(rewards.of({"1460", "14", 4}), 1.5);
  EXPECT_EQ(share_in_place("", ""), 1);
}

TEST(Rewards, TheLastNumberIsTheAnswer) {
  EXPECT_EQ(last_number("12 + 30 = 42."), 42);
  EXPECT_EQ(last_number("-3.5"), -3.5);
  EXPECT_EQ(last_number("10-3"), 3);
  EXPECT_EQ(last_number("x=-7 apples"), -7);
  EXPECT_EQ(last_number(".5"), 5);
  EXPECT_EQ(last_number("1.2.3"), 2.3);
  EXPECT_EQ(last_number("none"), std::nullopt);
}

TEST(Rewards, AdvantagesAreWithinTheGroup) {
  const std::vector<double> rewards{1, 0, 0, 1};
  EXPECT_THAT(advantages_of(rewards, AdvantageScale::kNone), ElementsAre(0.5, -0.5, -0.5, 0.5));
  const double scaled = 0.5 / (std::sqrt(1.0 / 3) + 1e-4);
  EXPECT_THAT(advantages_of(rewards, AdvantageScale::kDeviation),
              ElementsAre(DoubleNear(scaled, 1e-12), DoubleNear(-scaled, 1e-12),
                          DoubleNear(-scaled, 1e-12), DoubleNear(scaled, 1e-12)));
  EXPECT_THAT(advantages_of(std::vector<double>{0.1, 0.1, 0.1}, AdvantageScale::kDeviation),
              ElementsAre(0, 0, 0));
}

TEST(Rewards, AdvantagesBelowZeroCountAsOneSays) {
  const std::vector<double> rewards{1, 0, 0, 3};
  EXPECT_EQ(advantages_of(rewards, AdvantageScale::kNone), (std::vector<double>{0, -1, -1, 2}));
  EXPECT_EQ(advantages_of(rewards, AdvantageScale::kNone, 0.25),
            (std::vector<double>{0, -0.25, -0.25, 2}));
}

}  // namespace
}  // namespace mstrain
