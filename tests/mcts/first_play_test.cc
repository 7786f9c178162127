// SearchConfig::first_play: what an action counts as that was never tried.
#include <gtest/gtest.h>

#include <algorithm>

#include "mcts/any_search.h"
#include "mcts/evaluators.h"
#include "tests/mcts/engine_games.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder

constexpr const char* kPoliciesThatAsk[] = {"uct", "uct_tuned", "puct", "wu_uct", "widening"};

SearchResult<Action, AnyGame::kPlayers> searched_by(const std::string& policy,
                                                    const SearchConfig& config, const AnyGame& game,
                                                    int64_t simulations) {
  RandomRollout rollout;
  AnyEvaluator<AnyGame> evaluator(rollout);
  const auto search = any_searches().make(policy, config);
  search->set_root(game);
  return search->run(evaluator, Budget::sims(simulations));
}

// 200 actions, 150 simulations: who values what it has not seen at infinity sees each action once at most.
TEST(FirstPlay, DecidesHowSoonUnvisitedActionsAreTried) {
  for (const char* policy : kPoliciesThatAsk) {
    const auto most_visits = [&](FirstPlay first) {
      const SearchConfig config{.seed = 6, .uct_c = 0.3, .first_play = first, .widening_k = 200};
      uint64_t most = 0;
      for (const auto& edge :
           searched_by(policy, config, any_game(HashTree<200, 3>{}), 150).edges) {
        most = std::max(most, edge.visits);
      }
      return most;
    };
    SCOPED_TRACE(policy);
    EXPECT_EQ(most_visits(FirstPlay::kInfinite), 1U);
    EXPECT_GT(most_visits(FirstPlay::kParent), 3U);
    EXPECT_GT(most_visits(FirstPlay::kReduced), 3U);
    EXPECT_GT(most_visits(FirstPlay::kDraw), 3U);
    EXPECT_GT(most_visits(FirstPlay::kLoss), 10U);
  }
}

TEST(FirstPlay, LeavesTheBestActionToBeFound) {
  for (const char* policy : kPoliciesThatAsk) {
    for (const FirstPlay first : {FirstPlay::kDefault, FirstPlay::kInfinite, FirstPlay::kParent,
                                  FirstPlay::kReduced, FirstPlay::kLoss, FirstPlay::kDraw}) {
      for (const Parallelism kind :
           {Parallelism::kSerial, Parallelism::kDeterministic, Parallelism::kTree}) {
        const SearchConfig config{.seed = 3,
                                  .uct_c = 1,
                                  .first_play = first,
                                  .widening_k = 3,
                                  .parallelism = kind,
                                  .threads = 2};
        EXPECT_EQ(searched_by(policy, config, any_game(Nim{.stones = 10}), 6000).action, 2U)
            << policy << " " << static_cast<int>(first) << " " << static_cast<int>(kind);
      }
    }
  }
}

TEST(FirstPlay, IsRefusedByPoliciesWithARuleOfTheirOwn) {
  const SearchConfig config{.first_play = FirstPlay::kParent};
  for (const char* policy : {"gumbel", "rave", "epsilon_greedy", "open_loop", "information_set"}) {
    EXPECT_THROW(any_searches().make(policy, config), Error) << policy;
  }
  EXPECT_NE(any_searches().make("graph", config), nullptr);
}

}  // namespace
}  // namespace mstrain::mcts
