// What a search keeps: the subtree of the move played, its promises on memory and budgets, no trace of visits under way.
#include "mcts/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <thread>

#include "mcts/evaluators.h"
#include "mcts/search/graph_search.h"
#include "mcts/search/keyed_search.h"
#include "tests/amount.h"
#include "tests/mcts/engine_games.h"
#include "tests/mcts/results.h"
#include "tests/mcts/search_of.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder
using Tree10 = HashTree<10, 6>;

TEST(Search, AdvanceKeepsTheSubtree) {
  RandomRollout rollout;
  SearchOf<Tree10> search({.seed = 12});
  auto before = search.run(Tree10{}, rollout, Budget::sims(20000));
  const Block root(search.tree().arena().at(search.tree().root_block()));
  uint32_t best = 0;
  for (uint32_t i = 0; i < root.header().count; ++i) {
    best = search.tree().action(root, i) == *before.action ? i : best;
  }
  const Block child(search.tree().arena().at(root.children()[best]));
  std::map<Action, std::pair<uint32_t, float>> expected;
  for (uint32_t i = 0; i < child.header().count; ++i) {
    expected[search.tree().action(child, i)] = {child.visits()[i], child.sums()[i]};
  }
  const uint32_t visits = root.visits()[best];
  const size_t bytes = search.tree().used_bytes();
  search.advance(*before.action);
  EXPECT_EQ(search.tree().root_visits(), visits);
  EXPECT_LT(search.tree().used_bytes(), bytes);
  const auto after = search.result();
  ASSERT_EQ(after.edges.size(), expected.size());
  for (const auto& e : after.edges) {
    EXPECT_EQ(e.visits, expected[e.action].first);
    EXPECT_NEAR(e.value * e.visits, expected[e.action].second, 1e-3);
  }
  const auto more = search.run(rollout, Budget::sims(100));
  EXPECT_EQ(edge_visits(more), edge_visits(after) + 100);
  EXPECT_EQ(search.tree().used_bytes() % 4, 0U);
}

// A game whose first move is forced: what stands below it after advance() is what a fresh search there would have built.
struct OneWay : Tree10 {
  bool started = false;
  void legal(ActionBuffer& out) const { started ? Tree10::legal(out) : out.push(0); }
  void apply(Action a) { started ? Tree10::apply(a) : void(started = true); }
};
struct Ordered : ExpandAll {  // without the shuffle, which a simulation's number decides
  using ExpandAll::ExpandAll;
  template <class S>
  void actions(const S& state, ActionBufferOf<S>& out, Random&) const {
    state.legal(out);
  }
};
struct OrderedPolicies : UctPolicies {
  using Expand = Ordered;
};

TEST(Search, ReuseEqualsAFreshSearchOfTheSameCounts) {
  UniformEvaluator uniform;
  Search<OneWay, OrderedPolicies> reused({.seed = 1});
  Search<OneWay, OrderedPolicies> fresh({.seed = 2});
  reused.run(OneWay{}, uniform, Budget::sims(2001));
  reused.advance(0);
  OneWay started;
  started.apply(0);
  expect_equal(reused.result(), fresh.run(started, uniform, Budget::sims(2000)));
  expect_equal(reused.run(uniform, Budget::sims(500)), fresh.run(uniform, Budget::sims(500)));
}

TEST(Search, AnArenaNeverExceedsItsLimit) {
  RandomRollout rollout;
  SearchConfig config{.seed = 3, .memory_limit = 1 << 16};
  for (const Parallelism kind :
       {Parallelism::kSerial, Parallelism::kDeterministic, Parallelism::kTree}) {
    config.parallelism = kind;
    config.threads = 2;
    SearchOf<HashTree<20, 12>> search(config);
    const auto result = search.run(HashTree<20, 12>{}, rollout, Budget::sims(30000));
    EXPECT_LE(search.tree().used_bytes(), size_t{1} << 16U);
    EXPECT_GT(result.counters.prunings, 0U);
    EXPECT_EQ(search.tree().root_visits(), 30000U);
    if (kind != Parallelism::kTree) {  // whose threads may evaluate the root more than once
      EXPECT_EQ(edge_visits(result) + 1, 30000U);
    }
  }
}

struct ChanceTree : HashTree<8, 10> {  // by its actions alone
  void chance(ChanceBuffer&) const {}
};

TEST(Search, GraphsAndTablesOfKeysPruneAtTheirLimit) {
  RandomRollout rollout;
  const SearchConfig config{.seed = 3, .memory_limit = 1 << 18};
  GraphSearch<HashTree<8, 10>, Ucb1> graph(config);
  const auto a = graph.run(HashTree<8, 10>{}, rollout, Budget::sims(20000));
  EXPECT_LE(a.tree_bytes, uint64_t{1} << 18U);
  EXPECT_GT(a.counters.prunings, 0U);
  EXPECT_GE(edge_visits(a), 20000U - 1);
  OpenLoopSearch<ChanceTree> keyed(config);
  const auto b = keyed.run(ChanceTree{}, rollout, Budget::sims(20000));
  EXPECT_LE(b.tree_bytes, uint64_t{1} << 18U);
  EXPECT_GT(b.counters.prunings, 0U);
  EXPECT_EQ(edge_visits(b) + 1, 20000U);
}

TEST(Search, CompactionKeepsWhatIsVisitedOften) {
  RandomRollout rollout;
  SearchOf<HashTree<8, 10>> search({.seed = 3, .memory_limit = 1 << 20});
  search.run(HashTree<8, 10>{}, rollout, Budget::sims(3000));
  const auto before = search.result();
  auto& tree = const_cast<Tree<AnyGame, UctPolicies>&>(search.tree());
  const size_t bytes = tree.used_bytes();
  tree.prune();
  EXPECT_LE(tree.used_bytes(), bytes / 2);
  const auto after = search.result();
  for (size_t i = 0; i < before.edges.size(); ++i) {
    EXPECT_EQ(before.edges[i].visits, after.edges[i].visits);
  }
  EXPECT_GE(after.principal_variation.size(), 2U);
}

// Half a millisecond for a leaf.
struct SlowEvaluator {
  static constexpr bool kPriors = false;
  static constexpr bool kThreads = true;
  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    for (auto& item : batch.items) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      item.values = {};
    }
  }
};

double processor_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// Other processes may take the cores, so what is bounded is the work that a run does, not when it comes back.
TEST(Search, TimeBudgetsAreKeptInEveryMode) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers slow the search down, not the clock";
  }
  constexpr int kBudget = 10;  // milliseconds
  constexpr int kOver = 2;
  const auto usual_work = [](auto&& run) {
    std::vector<double> used;
    for (int i = 0; i < 7; ++i) {
      const double before = processor_milliseconds();
      run(Budget::milliseconds(kBudget));
      used.push_back(processor_milliseconds() - before);
    }
    std::sort(used.begin(), used.end());
    return used[1];
  };
  RandomRollout rollout;
  SlowEvaluator slow;
  using Wide = HashTree<10, 12>;
  for (const Parallelism kind : {Parallelism::kSerial, Parallelism::kRoot, Parallelism::kLeaf,
                                 Parallelism::kTree, Parallelism::kDeterministic}) {
    const int threads = kind == Parallelism::kSerial ? 1 : 2;
    SearchConfig config{.seed = 1, .parallelism = kind, .threads = threads, .batch = 2};
    config.leaf_evaluations = 2;
    SearchOf<Wide> search(config);
    EXPECT_LT(usual_work([&](const Budget& b) {
                const auto result = search.run(Wide{}, rollout, b);
                EXPECT_EQ(result.stop, Stop::kTime);
                EXPECT_GT(result.counters.simulations, 10U);
              }),
              threads * (kBudget + kOver))
        << "fast evaluator, " << static_cast<int>(kind);
    const auto result = search.run(Wide{}, slow, Budget::milliseconds(kBudget));
    EXPECT_LE(result.counters.evaluations, 2U * static_cast<uint64_t>(threads) * (kBudget + kOver))
        << "slow evaluator, " << static_cast<int>(kind);
    config.memory_limit = 1 << 22;
    SearchOf<Wide> full(config);
    full.run(Wide{}, rollout, Budget::sims(400'000));
    EXPECT_GT(full.result().counters.prunings, 0U) << static_cast<int>(kind);
    EXPECT_LT(usual_work([&](const Budget& b) { full.run(rollout, b); }),
              threads * (kBudget + kOver))
        << "full tree, " << static_cast<int>(kind);
  }
}

TEST(Search, StopsWhenTheLeaderIsStable) {
  RandomRollout rollout;
  const auto expect_stable = [](const auto& result) {
    EXPECT_EQ(result.stop, Stop::kStable);
    EXPECT_LT(result.counters.simulations, 20000U);
  };
  const Budget budget{.simulations = 1000000, .stable = 500};
  SearchOf<Nim> search({.seed = 3});
  const auto result = search.run(Nim{.stones = 5}, rollout, budget);
  expect_stable(result);
  EXPECT_EQ(result.action, 1U);
  // Also where values are proven meanwhile, of which the root is not.
  SearchOf<HashTree<3, 40>> proving({.seed = 3, .uct_c = 0.5, .solve = true});
  expect_stable(proving.run(HashTree<3, 40>{}, rollout, budget));
  GraphSearch<Nim> graph({.seed = 3});
  expect_stable(graph.run(Nim{.stones = 9}, rollout, budget));
  OpenLoopSearch<Gamble> open_loop({.seed = 3});
  expect_stable(open_loop.run(Gamble{}, rollout, budget));
}

TEST(Search, GatherAndScatterByTheHost) {
  SearchOf<Tree10, PuctPolicies> search({.seed = 3});
  search.set_root(Tree10{});
  EvalBatch<AnyGame> batch;
  uint64_t total = 0;
  for (int round = 0; round < 50; ++round) {
    const size_t n = search.gather(batch, 8, Budget::sims(1000));
    ASSERT_LE(n, 8U);
    for (auto& item : batch.items) {
      ASSERT_NE(item.state->player(), kTerminal);
      ASSERT_EQ(item.actions.size(), item.priors.size());
      std::fill(item.priors.begin(), item.priors.end(), 1.0F);
      item.values = {0.25F, -0.25F};
    }
    total += n;
    search.scatter(batch);
  }
  EXPECT_GT(total, 250U);
  EXPECT_EQ(edge_visits(search.result()) + 1, search.counters().simulations);
  search.gather(batch, 4, Budget::sims(1000));
  EXPECT_THROW(search.gather(batch, 4, Budget::sims(1000)), Error);
  EXPECT_THROW(search.scatter({batch.items.subspan(1)}), Error);
}

struct ConstantEvaluator {
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = true;
  void evaluate(EvalBatch<AnyGame>& batch) {
    for (auto& item : batch.items) {
      item.values = {0.5F, -0.5F};
      std::fill(item.priors.begin(), item.priors.end(), 1.0F);
    }
  }
};

// Marks of visits under way are all taken back.
TEST(Search, VirtualLossLeavesNoTrace) {
  ConstantEvaluator constant;
  for (const int64_t batch : {1, 16}) {
    SearchOf<Tree10, PuctPolicies> search(
        {.seed = 3, .parallelism = Parallelism::kDeterministic, .batch = batch});
    const auto result = search.run(Tree10{}, constant, Budget::sims(900));
    for (const auto& e : result.edges) {
      if (e.visits > 0) {
        EXPECT_NEAR(e.value, 0.5, 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace mstrain::mcts
