// Information-set search on Kuhn poker, against the game's equilibrium: how much a perfect opponent wins from it.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <unordered_map>
#include <vector>

#include "mcts/evaluators.h"
#include "mcts/games/kuhn_poker.h"
#include "mcts/search/keyed_search.h"
#include "tests/mcts/cfr.h"

namespace mstrain::mcts {
namespace {

// Visit shares of a search of each of the game's twelve situations.
PokerPolicy searched_policy(int64_t simulations, uint64_t seed) {
  PokerPolicy policy;
  std::unordered_map<uint64_t, bool> seen;
  for_each_information(KuhnPoker(), seen, [&](const KuhnPoker& state) {
    InformationSearch<KuhnPoker> search({.seed = seed});
    RandomRollout rollout;
    const auto result = search.run(state, rollout, Budget::sims(simulations));
    std::vector<double> shares;
    for (const Action action : actions_of(state)) {
      for (const auto& edge : result.edges) {
        if (edge.action == action) {
          shares.push_back(edge.weight);
        }
      }
    }
    policy[state.information_key(state.player())] = shares;
  });
  return policy;
}

TEST(InformationSearch, IsReportedAgainstKuhnsEquilibrium) {
  const PokerPolicy policy = searched_policy(10'000, 1);
  ASSERT_EQ(policy.size(), 12U);
  const double exploited = exploitability<KuhnPoker>(policy);
  const double value = expected_value(KuhnPoker(), policy);
  RecordProperty("exploitability", std::to_string(exploited));
  RecordProperty("value", std::to_string(value));
  fmt::print(
      "Kuhn poker, 10000 simulations a move: exploitability {:.4f} chips (random play 0.4583), "
      "worth {:+.4f} to the "
      "first player (equilibrium -0.0556)\n",
      exploited, value);
  EXPECT_GE(exploited, 0);
  EXPECT_LT(exploited, 0.2);
  EXPECT_GT(value, -0.25);
  EXPECT_LT(value, 0.15);
}

TEST(InformationSearch, NeverFoldsAKingNorCallsWithAJack) {
  const PokerPolicy policy = searched_policy(5'000, 2);
  const auto at = [&](const char* moves) {
    const auto state = KuhnPoker::from_position(moves);
    return policy.at(state.information_key(state.player()));
  };
  EXPECT_GT(at("K Q pass bet")[1], 0.98);
  EXPECT_GT(at("Q K bet")[1], 0.98);
  EXPECT_LT(at("J Q pass bet")[1], 0.02);
  EXPECT_LT(at("Q J bet")[1], 0.02);
}

}  // namespace
}  // namespace mstrain::mcts
