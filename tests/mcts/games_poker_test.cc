// Equilibria of the poker games: what they are worth, and that nothing can be won against them.
#include <gtest/gtest.h>

#include "mcts/games/kuhn_poker.h"
#include "mcts/games/leduc_poker.h"
#include "tests/mcts/cfr.h"

namespace mstrain::mcts {
namespace {

template <GameState S>
PokerPolicy equilibrium(int iterations) {
  Cfr<S> cfr;
  for (int i = 0; i < iterations; ++i) {
    cfr.iterate();
  }
  return cfr.average();
}

template <GameState S>
PokerPolicy uniform_policy() {
  PokerPolicy policy;
  std::unordered_map<uint64_t, bool> seen;
  for_each_information(S(), seen, [&](const S& state) {
    const size_t count = actions_of(state).size();
    policy[state.information_key(state.player())] =
        std::vector<double>(count, 1.0 / static_cast<double>(count));
  });
  return policy;
}

TEST(KuhnPoker, IsWorthMinusOneEighteenthToTheFirstPlayer) {
  const PokerPolicy policy = equilibrium<KuhnPoker>(3000);
  EXPECT_EQ(policy.size(), 12U);
  EXPECT_NEAR(expected_value(KuhnPoker(), policy), -1.0 / 18, 1e-3);
  EXPECT_LT(exploitability<KuhnPoker>(policy), 1e-3);
  EXPECT_GE(exploitability<KuhnPoker>(policy), -1e-9);
}

TEST(KuhnPoker, RandomPlayLosesHalfAChipToAPerfectFirstPlayer) {
  const PokerPolicy policy = uniform_policy<KuhnPoker>();
  EXPECT_NEAR(BestResponse<KuhnPoker>(policy, 0).value(), 1.0 / 2, 1e-6);
  EXPECT_NEAR(BestResponse<KuhnPoker>(policy, 1).value(), 5.0 / 12, 1e-6);
}

// The value that game theorists publish for Leduc poker is -0.0856 chips.
TEST(LeducPoker, IsWorthMinusEightyFiveThousandths) {
  const PokerPolicy policy = equilibrium<LeducPoker>(250);
  EXPECT_NEAR(expected_value(LeducPoker(), policy), -0.0856, 0.002);
  const double left = exploitability<LeducPoker>(policy);
  EXPECT_LT(left, 0.01);
  EXPECT_GT(exploitability<LeducPoker>(uniform_policy<LeducPoker>()), 10 * left);
}

}  // namespace
}  // namespace mstrain::mcts
