// gather() and scatter() are run() in steps: whole games of both are compared move by move.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mcts/evaluators.h"
#include "mcts/games/connect_four.h"
#include "tests/mcts/engine_games.h"
#include "tests/mcts/results.h"
#include "tests/mcts/search_of.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder

// Values and priors that depend on the state alone and are no short binary fractions.
struct PureFractions {
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = true;
  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    for (auto& item : batch.items) {
      const uint64_t h = item.state->hash();
      item.values = {static_cast<float>(h % 1999) / 999.3F - 1,
                     1 - static_cast<float>(h % 1999) / 999.3F};
      for (size_t a = 0; a < item.actions.size(); ++a) {
        item.priors[a] = static_cast<float>(1 + hash_mix(h + item.actions[a]) % 8);
      }
    }
  }
};

template <class P>
class EveryPolicyInSteps : public ::testing::Test {};
using PoliciesInSteps =
    ::testing::Types<UctPolicies, UctTunedPolicies, PuctPolicies, RavePolicies,
                     EpsilonGreedyPolicies, GumbelPolicies, WuUctPolicies, WideningPolicies>;
TYPED_TEST_SUITE(EveryPolicyInSteps, PoliciesInSteps);

// Plays a game twice, by run() and by gather() of up to `leaves` at a time.
template <class P>
void play_both_ways(const SearchConfig& config, size_t leaves, const Budget& budget) {
  SearchConfig one = config;
  SearchConfig other = config;
  if (leaves > 1) {
    one.parallelism = Parallelism::kDeterministic;
    one.batch = static_cast<int64_t>(leaves);
  }
  SearchOf<ConnectFour, P> whole(one);
  SearchOf<ConnectFour, P> steps(other);
  ConnectFour game;
  whole.set_root(game);
  steps.set_root(game);
  PureFractions pure;
  EvalBatch<AnyGame> batch;
  int moves = 0;
  for (; game.player() != kTerminal; ++moves) {
    const auto result = whole.run(pure, budget);
    uint64_t asked = 0;
    while (const size_t n = steps.gather(batch, leaves, budget)) {
      ASSERT_LE(n, leaves);
      asked += n;
      pure.evaluate(batch);
      steps.scatter(batch);
    }
    ASSERT_EQ(steps.gather(batch, leaves, budget), 0U);  // it stays over
    ASSERT_TRUE(batch.items.empty());
    const auto same = steps.result();
    expect_equal(result, same);
    ASSERT_EQ(result.counters.simulations, same.counters.simulations);
    EXPECT_EQ(result.stop, same.stop);
    EXPECT_EQ(same.counters.evaluations, asked);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "at move " << moves;
    game.apply(*result.action);
    if (game.player() != kTerminal) {
      whole.advance(*result.action);
      steps.advance(*result.action);
    }
  }
  EXPECT_GE(moves, 7);
}

TYPED_TEST(EveryPolicyInSteps, PlaysTheGameThatRunPlays) {
  play_both_ways<TypeParam>({.seed = 3, .noise_fraction = 0.25}, 1, Budget::sims(150));
}

TYPED_TEST(EveryPolicyInSteps, PlaysTheGameThatBatchesPlay) {
  play_both_ways<TypeParam>({.seed = 4}, 8, Budget::sims(150));
}

TEST(Steps, ProveAndStopLikeRun) {
  play_both_ways<UctPolicies>({.seed = 5, .solve = true}, 1, {.simulations = 3000, .stable = 200});
}

TEST(Steps, EveryRootHasNoiseOfItsOwn) {
  SearchOf<ConnectFour, PuctPolicies> search({.seed = 3, .noise_fraction = 0.5});
  ConnectFour game;
  search.set_root(game);
  EvalBatch<AnyGame> batch;
  const auto search_uniformly = [&] {
    while (search.gather(batch, 4, Budget::sims(100)) > 0) {
      for (auto& item : batch.items) {
        item.values = {};
        std::fill(item.priors.begin(), item.priors.end(), 1.0F);
      }
      search.scatter(batch);
    }
  };
  for (int move = 0; move < 4; ++move) {
    search_uniformly();
    const auto result = search.result();
    double least = 1;
    double most = 0;
    for (const auto& e : result.edges) {
      least = std::min(least, e.prior);
      most = std::max(most, e.prior);
    }
    EXPECT_GT(most, least * 1.5) << "after " << move << " moves";
    search.advance(*result.action);
  }
}

TYPED_TEST(EveryPolicyInSteps, TheExpectedLineBeginsWithWhatIsPlayedFromOneSimulationOn) {
  PureFractions pure;
  for (const int64_t simulations : {1, 2, 40, 300}) {
    for (const int64_t trees : {1, 2}) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        SearchConfig config{.seed = seed, .trees = trees};
        config.parallelism = trees > 1 ? Parallelism::kRoot : Parallelism::kSerial;
        SearchOf<ConnectFour, TypeParam> search(config);
        const auto result = search.run(ConnectFour{}, pure, Budget::sims(simulations));
        ASSERT_TRUE(result.action.has_value()) << simulations;
        ASSERT_FALSE(result.principal_variation.empty()) << simulations;
        EXPECT_EQ(result.principal_variation[0], *result.action)
            << simulations << " simulations, seed " << seed;
      }
    }
  }
}

TEST(Steps, AGumbelRootIsPlannedForTheBudget) {
  PureFractions pure;
  for (const int64_t simulations : {50, 200}) {
    SearchOf<ConnectFour, GumbelPolicies> search({.seed = 3, .gumbel_considered = 4});
    search.set_root(ConnectFour{});
    EvalBatch<AnyGame> batch;
    while (search.gather(batch, 1, Budget::sims(simulations)) > 0) {
      pure.evaluate(batch);
      search.scatter(batch);
    }
    int visited = 0;
    uint64_t most = 0;
    for (const auto& e : search.result().edges) {
      visited += e.visits > 0 ? 1 : 0;
      most = std::max(most, e.visits);
    }
    EXPECT_EQ(visited, 4);  // half of four are left after half of the simulations
    EXPECT_GE(most, static_cast<uint64_t>(simulations) * 3 / 8 - 2);
  }
}

TEST(Steps, ALargerBudgetGoesOn) {
  PureFractions pure;
  SearchOf<ConnectFour, PuctPolicies> search({.seed = 3});
  search.set_root(ConnectFour{});
  EvalBatch<AnyGame> batch;
  for (const int64_t simulations : {40, 100}) {
    while (search.gather(batch, 8, Budget::sims(simulations)) > 0) {
      pure.evaluate(batch);
      search.scatter(batch);
    }
    EXPECT_EQ(search.counters().simulations, static_cast<uint64_t>(simulations));
  }
  EXPECT_THROW(search.gather(batch, 8, Budget{}), Error);
}

// For one thread at a time.
struct Network {
  static constexpr bool kPriors = true;
  size_t largest = 0;
  int64_t calls = 0;
  void evaluate(EvalBatch<AnyGame>& batch) {
    PureFractions().evaluate(batch);
    largest = std::max(largest, batch.items.size());
    ++calls;
  }
};

// Threads of one tree fill the batches of an evaluator that only one of them may call.
TEST(Search, ThreadsOfOneTreeShareTheBatchesOfANetwork) {
  for (const int threads : {1, 3}) {
    Network network;
    SearchOf<ConnectFour, PuctPolicies> search({.seed = 3,
                                                .parallelism = Parallelism::kTree,
                                                .threads = threads,
                                                .batch = 24,
                                                .memory_limit = 1 << 16});
    const auto result = search.run(ConnectFour{}, network, Budget::sims(5000));
    EXPECT_EQ(result.counters.simulations, 5000U);
    EXPECT_EQ(edge_visits(result) + 1, 5000U);
    EXPECT_GT(network.largest, 12U);
    EXPECT_LT(network.calls, 1000);
    EXPECT_GT(result.counters.prunings, 0U);
    for (const auto& e : result.edges) {
      EXPECT_LE(std::abs(e.value), 1.01);
    }
  }
}

}  // namespace
}  // namespace mstrain::mcts
