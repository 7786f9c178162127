#include "suites/reinforcement/algorithms/ntuple_network.h"

#include <gmock/gmock.h>

#include <numeric>

#include "core/base/error.h"
#include "mcts/games/game_2048.h"
#include "suites/reinforcement/algorithms/td_afterstate.h"

namespace mstrain::reinforcement {
namespace {

using mcts::Game2048;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Two cells that a mirror changes, three symbols.
TEST(NTupleNetwork, LooksUpEverySymmetry) {
  const NTupleNetwork network({{0, 1}, {1}}, 3, {{0, 1}, {1, 0}});
  ASSERT_EQ(network.lookups(), 4U);
  EXPECT_EQ(network.specs()[0].type.shape, (Shape{9}));
  EXPECT_EQ(network.specs()[1].type.shape, (Shape{3}));
  std::vector<uint32_t> entries(4);
  network.entries(std::vector<uint8_t>{2, 1}, entries);
  EXPECT_THAT(entries, ElementsAre(2 * 3 + 1, 1 * 3 + 2, 1, 2));
  std::vector<float> pairs(9), singles(3);
  std::iota(pairs.begin(), pairs.end(), 10.0F);
  std::iota(singles.begin(), singles.end(), 100.0F);
  EXPECT_EQ(network.value(std::vector{pairs.data(), singles.data()}, entries),
            17.0F + 15.0F + 101.0F + 102.0F);
}

TEST(TableHits, AddsUpWhatHitsAnEntry) {
  TableHits hits(64);
  for (int round = 0; round < 2; ++round) {
    hits.clear();
    for (uint32_t i = 0; i < 64; ++i) {
      hits.add(i % 5 == 0 ? 7 : 1U << 20 | i, static_cast<float>(i));
    }
    ASSERT_EQ(hits.all().size(), 52U);
    EXPECT_EQ(hits.all()[0].entry, 7U);
    EXPECT_EQ(hits.all()[0].count, 13U);
    EXPECT_EQ(hits.all()[0].error, 5.0F * (12 * 13 / 2));
    EXPECT_EQ(hits.all()[1].error, 1.0F);
  }
}

TEST(CoherentTable, StepsLessWhereErrorsCancel) {
  std::vector<float> values(2), errors(2), magnitudes(2);
  const CoherentTable table{values.data(), errors.data(), magnitudes.data()};
  const auto learn = [&](std::vector<float> hits) {
    TableHits all(hits.size());
    for (const float error : hits) {
      all.add(1, error);
    }
    table.learn(all, 0.5F);
  };
  learn({1, 3});  // their mean, 2, with step size 1
  EXPECT_EQ(values[1], 1.0F);
  learn({-1});  // the errors agree so far
  EXPECT_EQ(values[1], 0.5F);
  learn({4});  // |2 - 1| / (2 + 1)
  EXPECT_FLOAT_EQ(values[1], 0.5F + 0.5F * 4 / 3);
  EXPECT_EQ(errors[1], 5.0F);
  EXPECT_EQ(magnitudes[1], 7.0F);
  EXPECT_EQ(values[0], 0.0F);
}

// The best move by hand: rewards, and the values of what the moves lead to.
TEST(AfterstateValues, ChooseByRewardAndAfterstate) {
  TdAfterstate config;
  config.tuples = {{0, 1}, {5, 6}};
  config.discount = 0.5;
  AfterstateValues values(config, "2048");
  const Params tables = init_params(values.network().specs(), 0);
  values.bind(tables);
  std::vector<uint8_t> twos(16, 0);
  twos[0] = twos[1] = 1;
  const Game2048 state = Game2048::from_cells(twos);
  std::vector<float> seen(256);
  state.observe(0, seen);
  std::vector<uint8_t> after(16);
  // No value yet: the merge pays 4 points, to the left as to the right; the first of equals.
  AfterstateValues::Choice best = values.best(values.seen(seen), after);
  EXPECT_EQ(best.action, 0);
  EXPECT_EQ(best.total, 4 * Game2048::kPoint);
  EXPECT_THAT(std::span(after).first(4), ElementsAre(2, 0, 0, 0));
  // Two twos at the lower edge, of whose corner one symmetry looks along it.
  memory_of(tables)[0][1 * 16 + 1] = 0.25F;
  best = values.best(values.seen(seen), after);
  EXPECT_EQ(best.action, 3);
  EXPECT_EQ(best.total, 0.5F * 0.25F);
  EXPECT_THAT(std::span(after).last(4), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(values.best(values.seen(std::vector<float>(256))).action, -1);
}

TEST(AfterstateValues, SayWhatTheyAreFor) {
  const auto message = [](const TdAfterstate& config, const std::string& game) {
    try {
      AfterstateValues(config, game);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  TdAfterstate config;
  for (const char* game : {"connect_four", "kuhn_poker", "cartpole"}) {
    EXPECT_THAT(message(config, game), HasSubstr("td_afterstate plays 2048")) << game;
  }
  config.simulations = 1;  // of mstrain play --sims 1 as well
  EXPECT_THAT(message(config, "2048"), HasSubstr("algorithm.simulations: 1"));
  config.simulations = 0;
  config.tuples = {{0, 1}, {3, 16}};
  EXPECT_THAT(message(config, "2048"),
              HasSubstr("algorithm.tuples[1]: expected cells from 0 to 15"));
  config.tuples = {{3, 3}};
  EXPECT_THAT(message(config, "2048"), HasSubstr("algorithm.tuples[0]: has cell 3 twice"));
  config.tuples = {{0, 1, 2, 3, 4, 5, 6, 7}};
  EXPECT_THAT(message(config, "2048"), HasSubstr("more than 268435456 entries"));
  config.tuples = {{}};
  EXPECT_THAT(message(config, "2048"), HasSubstr("algorithm.tuples[0]: has no cells"));
  config.tuples = {};
  EXPECT_THAT(message(config, "2048"), HasSubstr("at least one"));
}

}  // namespace
}  // namespace mstrain::reinforcement
