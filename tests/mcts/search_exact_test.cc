// Sums and counts at any number of visits: what is known of an edge does not depend on how often it was visited.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <thread>
#include <type_traits>
#include <vector>

#include "mcts/evaluators.h"
#include "mcts/search/totals.h"
#include "tests/mcts/engine_games.h"
#include "tests/mcts/results.h"
#include "tests/mcts/search_of.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder

// Every state and every end is worth the same.
struct Pair : HashTree<2, 30> {
  static inline float worth = 1;
  Returns<2> returns() const { return {worth, -worth}; }
};
struct Pays {
  static constexpr bool kPriors = false;
  static constexpr bool kThreads = true;
  explicit Pays(float worth) { Pair::worth = worth; }
  void evaluate(EvalBatch<AnyGame>& batch) {
    for (auto& item : batch.items) {
      item.values = item.state->returns();
    }
  }
};

// A tree whose root was visited `visits` times, each with a result of `mean`, as if it had been searched so long.
template <class P>
void age(const Search<AnyGame, P>& search, uint32_t visits, float mean) {
  auto& tree = const_cast<Tree<AnyGame, P>&>(search.tree());
  const Block root(tree.arena().at(tree.root_block()));
  for (uint32_t i = 0; i < root.header().count; ++i) {
    root.visits()[i] = visits;
    root.sums()[i] = mean * static_cast<float>(visits);
    if constexpr (ColumnsOf<P>::kSquare) {
      root.policy_column(ColumnsOf<P>::kSquareSum)[i] = static_cast<float>(visits);
    }
    if constexpr (ColumnsOf<P>::kAmaf) {
      root.policy_column(ColumnsOf<P>::kAmafVisits)[i] = static_cast<float>(visits);
      root.policy_column(ColumnsOf<P>::kAmafSum)[i] = mean * static_cast<float>(visits);
    }
  }
}

struct RecentPolicies : UctPolicies {
  using Backup = RecentBackup;
};

template <class P>
class EveryBackup : public ::testing::Test {};
using PoliciesThatBackUp =
    ::testing::Types<UctPolicies, UctTunedPolicies, PuctPolicies, RavePolicies,
                     EpsilonGreedyPolicies, WuUctPolicies, RecentPolicies>;
TYPED_TEST_SUITE(EveryBackup, PoliciesThatBackUp);

TYPED_TEST(EveryBackup, CountsOnesBeyondTheMantissaOfAFloat) {
  constexpr uint32_t kVisits = (1U << 24U) + 3;
  for (const Parallelism kind :
       {Parallelism::kSerial, Parallelism::kDeterministic, Parallelism::kTree}) {
    SearchOf<Pair, TypeParam> search({.seed = 1, .parallelism = kind, .threads = 2});
    Pays pays(1);
    search.run(Pair{}, pays, Budget::sims(100));
    age(search, kVisits, 1);
    const auto result = search.run(pays, Budget::sims(60'000));
    for (const auto& e : result.edges) {
      EXPECT_GE(e.visits, uint64_t{kVisits});
      // Threads that share a tree see each other's visits before their values, which a moving mean takes for its own.
      const bool moving = std::is_same_v<TypeParam, RecentPolicies> && kind == Parallelism::kTree;
      EXPECT_NEAR(e.value, 1, moving ? 1e-4 : 1e-6) << "parallelism " << static_cast<int>(kind);
    }
    EXPECT_EQ(edge_visits(result), 2 * uint64_t{kVisits} + 60'000);
  }
}

TYPED_TEST(EveryBackup, CountsVisitsBeyondTheirColumn) {
  SearchOf<Pair, TypeParam> search({.seed = 1});
  Pays pays(-0.5F);
  search.run(Pair{}, pays, Budget::sims(100));
  age(search, kMostShown - 100, -0.5F);
  const auto result = search.run(pays, Budget::sims(60'000));
  EXPECT_EQ(edge_visits(result), 2 * uint64_t{kMostShown - 100} + 60'000);
  for (const auto& e : result.edges) {
    EXPECT_NEAR(e.value, -0.5, 1e-6);
  }
  const Block root(search.tree().arena().at(search.tree().root_block()));
  EXPECT_EQ(root.visits()[0], kMostShown);
  EXPECT_NEAR(root.sums()[0] / static_cast<float>(kMostShown), -0.5, 1e-6);  // selection's mean
  search.advance(result.edges[0].action);
  EXPECT_EQ(search.tree().root_visits(), result.edges[0].visits);
}

// A tenth is no sum of powers of two, so a float's sum of many drifts.
TEST(Search, MeansOfEqualResultsAreThatResult) {
  Pays tenth(0.1F);
  for (const Parallelism kind : {Parallelism::kSerial, Parallelism::kTree}) {
    SearchOf<Pair> search({.seed = 1, .parallelism = kind, .threads = 2});
    const auto result = search.run(Pair{}, tenth, Budget::sims(200'000));
    for (const auto& e : result.edges) {
      EXPECT_NEAR(e.value, 0.1, 2e-6);
    }
  }
}

TEST(Search, ExactSumsGoWithTheirBlocks) {
  Pays tenth(0.1F);
  SearchOf<Pair> search({.seed = 1, .memory_limit = 1 << 19});
  auto result = search.run(Pair{}, tenth, Budget::sims(200'000));
  EXPECT_GT(result.counters.prunings, 0U);
  for (int move = 0; move < 4; ++move) {
    search.advance(*result.action);
    result = search.result();
    for (const auto& e : result.edges) {
      EXPECT_GT(e.visits, kExactFrom);
      // Of either player; the first kExactFrom visits were added in floats.
      EXPECT_NEAR(std::abs(e.value), 0.1, 2e-5);
    }
  }
}

TEST(Totals, SeveralThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 20'000;
  Totals totals;
  std::array<float, 64> shown{};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) {
        const auto edge = static_cast<uint32_t>(i % 64);
        totals.update<true>(Totals::key(2, kSumColumn, edge), &shown[edge], 1,
                            [](double sum) { return sum + 0.1; });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  double sum = 0;
  for (uint32_t edge = 0; edge < 64; ++edge) {
    const double total = totals.find(Totals::key(2, kSumColumn, edge), 0.0F);
    EXPECT_EQ(shown[edge], static_cast<float>(total));
    sum += total;
  }
  EXPECT_NEAR(sum, kThreads * kTimes * 0.1, 1e-6);
}

}  // namespace
}  // namespace mstrain::mcts
