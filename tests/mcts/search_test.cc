// What every search must do: find known answers, count its visits, repeat itself.
#include "mcts/search/search.h"

#include <gtest/gtest.h>

#include "mcts/evaluators.h"
#include "tests/mcts/engine_games.h"
#include "tests/mcts/results.h"
#include "tests/mcts/search_of.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder
using Tree10 = HashTree<10, 6>;

struct NimOracle {
  static constexpr bool kPriors = true;
  void evaluate(EvalBatch<AnyGame>& batch) {
    for (auto& item : batch.items) {
      const Nim& nim = inside<Nim>(*item.state);
      const float mine = nim.stones % 4 == 0 ? -1 : 1;
      item.values[static_cast<size_t>(nim.mover)] = mine;
      item.values[static_cast<size_t>(1 - nim.mover)] = -mine;
      std::fill(item.priors.begin(), item.priors.end(), 1.0F);
    }
  }
};

template <class P>
class EveryPolicy : public ::testing::Test {};
using Policies = ::testing::Types<UctPolicies, UctTunedPolicies, PuctPolicies, RavePolicies,
                                  EpsilonGreedyPolicies, GumbelPolicies, WuUctPolicies>;
TYPED_TEST_SUITE(EveryPolicy, Policies);

TYPED_TEST(EveryPolicy, WinsAtNim) {
  for (const int stones : {5, 6, 7, 9, 10}) {
    SearchOf<Nim, TypeParam> search({.seed = 3, .uct_c = 1});
    RandomRollout rollout;
    NimOracle oracle;  // for Gumbel, whose inner nodes trust the evaluator
    const auto result = TypeParam::kGumbel
                            ? search.run(Nim{.stones = stones}, oracle, Budget::sims(400))
                            : search.run(Nim{.stones = stones}, rollout, Budget::sims(4000));
    EXPECT_EQ(result.action, static_cast<Action>(stones % 4)) << stones;
  }
}

TYPED_TEST(EveryPolicy, VisitsAddUpAndValuesAreBounded) {
  SearchOf<Tree10, TypeParam> search({.seed = 5});
  RandomRollout rollout;
  const auto result = search.run(Tree10{}, rollout, Budget::sims(3000));
  EXPECT_EQ(edge_visits(result) + 1, 3000U);  // the first one evaluates the root itself
  EXPECT_EQ(result.counters.simulations, 3000U);
  double weight = 0;
  double prior = 0;
  for (const auto& e : result.edges) {
    EXPECT_LE(std::abs(e.value), 1);
    weight += e.weight;
    prior += e.prior;
  }
  EXPECT_NEAR(weight, 1, 1e-5);
  if (ColumnsOf<TypeParam>::kPrior) {
    EXPECT_NEAR(prior, 1, 1e-3);  // 11 bits of mantissa each
  }
  // Below the root the same holds: a node's visits are one more than those of its edges.
  const auto& tree = search.tree();
  const Block root(tree.arena().at(tree.root_block()));
  for (uint32_t i = 0; i < root.header().count; ++i) {
    if (root.children()[i] > kPending) {
      const Block child(tree.arena().at(root.children()[i]));
      uint64_t sum = 0;
      for (uint32_t j = 0; j < child.header().count; ++j) {
        sum += child.visits()[j];
      }
      EXPECT_EQ(sum + 1, root.visits()[i]);
    }
  }
}

TYPED_TEST(EveryPolicy, TheSameSeedGivesTheSameTree) {
  RandomRollout rollout;
  SearchOf<Tree10, TypeParam> one({.seed = 9});
  SearchOf<Tree10, TypeParam> two({.seed = 9});
  SearchOf<Tree10, TypeParam> other({.seed = 10});
  const auto a = one.run(Tree10{}, rollout, Budget::sims(2000));
  expect_equal(a, two.run(Tree10{}, rollout, Budget::sims(2000)));
  const auto c = other.run(Tree10{}, rollout, Budget::sims(2000));
  bool differs = false;
  for (size_t i = 0; i < a.edges.size(); ++i) {
    differs =
        differs || a.edges[i].visits != c.edges[i].visits || a.edges[i].action != c.edges[i].action;
  }
  EXPECT_TRUE(differs);
}

TYPED_TEST(EveryPolicy, ReproducibleWithAnyNumberOfThreads) {
  RandomRollout rollout;
  for (const Parallelism kind :
       {Parallelism::kRoot, Parallelism::kLeaf, Parallelism::kDeterministic}) {
    SearchConfig config{.seed = 4, .parallelism = kind, .threads = 1, .trees = 3};
    SearchOf<Tree10, TypeParam> one(config);
    config.threads = 3;
    SearchOf<Tree10, TypeParam> three(config);
    const auto a = one.run(Tree10{}, rollout, Budget::sims(1000));
    expect_equal(a, three.run(Tree10{}, rollout, Budget::sims(1000)));
    EXPECT_EQ(a.counters.simulations, 1000U);
  }
}

// The same selection, which must be asked anew at each node for it might explore.
template <class Select>
struct Asked : Select {
  using Select::Select;
  bool explore(Random&) const { return false; }
};
template <class P>
struct AskedPolicies : P {
  using Select = Asked<typename P::Select>;
};

// What a serial run does, with no other kind of search compiled.
template <class P, class E>
std::vector<RootEdge<Action>> grown(const SearchConfig& config, E& evaluator,
                                    uint64_t simulations) {
  Tree<Tree10, P> tree(config, 0);
  tree.set_root(Tree10{});
  tree.begin_run(1, static_cast<int64_t>(simulations));
  DescentOf<Tree10> d;
  for (uint64_t i = 0; i < simulations; ++i) {
    if (tree.template descend<Access::kPlain>(d, i, P::kGumbel) == Outcome::kLeaf) {
      EvalBatch<Tree10> leaf{{&d.item, 1}};
      evaluator.evaluate(leaf);
    }
    tree.template finish<Access::kPlain>(d);
  }
  EXPECT_EQ(tree.root_visits(), simulations);
  return tree.root_edges();
}

// A run chooses the edges of the next descent while it backs a value up.
TYPED_TEST(EveryPolicy, ChoosesAheadWhatItWouldChooseOnTheWay) {
  if (std::is_same_v<typename TypeParam::Select, EpsilonGreedy>) {
    GTEST_SKIP() << "it explores, so it never chooses ahead";
  }
  RandomRollout rollout;
  for (const bool solve : {false, !TypeParam::kGumbel}) {
    const SearchConfig config{.seed = 6, .solve = solve};
    SearchOf<Tree10, TypeParam> ahead(config);
    expect_equal(ahead.run(Tree10{}, rollout, Budget::sims(3000)).edges,
                 grown<AskedPolicies<TypeParam>>(config, rollout, 3000));
  }
}

// A user's own policy, scored one edge at a time.
struct MinVisits {
  static constexpr uint32_t kColumns = 0;
  static constexpr Opening kOpening = Opening::kFirst;
  struct Node {};
  explicit MinVisits(const SearchConfig&) {}
  Node node(float) const { return {}; }
  float score(const Edge<float>& e, const Node&) const { return -e.visits; }
};
struct MinVisitsPolicies : UctPolicies {
  using Select = MinVisits;
};

TEST(Search, AUsersPolicyIsFollowed) {
  UniformEvaluator uniform;
  for (const auto& e : grown<MinVisitsPolicies>({.seed = 1}, uniform, 1001)) {
    EXPECT_EQ(e.visits, 100U);
  }
}

// The kernels of both widths choose alike.
struct ScalarUcb1 : MinVisits {
  explicit ScalarUcb1(const SearchConfig& config) : MinVisits(config), ucb(config) {}
  static constexpr bool kInverseRoot = true;
  using Node = Ucb1::Node;
  Node node(float visits) const { return ucb.node(visits); }
  float score(const Edge<float>& e, const Node& n) const { return ucb.score(e, n); }
  Ucb1 ucb;
};
struct ScalarPolicies : UctPolicies {
  using Select = ScalarUcb1;
};

TEST(Search, PackedAndScalarScoresAgree) {
  static_assert(ScoresPacks<Ucb1> && !ScoresPacks<ScalarUcb1>);
  RandomRollout rollout;
  SearchOf<Tree10> packed({.seed = 2});
  expect_equal(packed.run(Tree10{}, rollout, Budget::sims(5000)).edges,
               grown<ScalarPolicies>({.seed = 2}, rollout, 5000));
}

TEST(Search, UndoGivesTheTreeOfCopying) {
  RandomRollout rollout;
  SearchOf<Nim> copies({.seed = 2});
  Search<NimUndo> undoes({.seed = 2});
  SearchOf<NimUndo> undoes_any({.seed = 2});
  const auto edges = copies.run(Nim{}, rollout, Budget::sims(3000)).edges;
  expect_equal(edges, undoes.run(NimUndo{}, rollout, Budget::sims(3000)).edges);
  expect_equal(edges, undoes_any.run(NimUndo{}, rollout, Budget::sims(3000)).edges);
}

TEST(Search, SolvesNimForTwoAndThree) {
  RandomRollout rollout;
  for (int stones = 1; stones <= 12; ++stones) {
    SearchOf<Nim> search({.seed = 7, .solve = true});
    const auto result = search.run(Nim{.stones = stones}, rollout, Budget::sims(200000));
    EXPECT_TRUE(result.proven) << stones;
    EXPECT_EQ(result.stop, Stop::kSolved);
    EXPECT_EQ(result.value, stones % 4 == 0 ? -1 : 1) << stones;
    EXPECT_LT(result.counters.simulations, 200000U);
  }
  // Three players: whoever can take the rest wins; with 4 stones the mover cannot, whatever he does the next one can.
  const auto solve_for_three = [&](auto&& search) {
    auto result = search.run(Nim3{.stones = 3}, rollout, Budget::sims(100000));
    EXPECT_TRUE(result.proven);
    EXPECT_EQ(result.value, 1);
    result = search.run(Nim3{.stones = 4}, rollout, Budget::sims(100000));
    EXPECT_TRUE(result.proven);
    EXPECT_EQ(result.value, -1);
  };
  solve_for_three(Search<Nim3>({.seed = 7, .solve = true}));
  solve_for_three(SearchOf<Nim3>({.seed = 7, .solve = true}));
}

TEST(Search, EachPlayerMaximisesItsOwnResult) {
  // Three players, 7 stones: taking 3 leaves 4, from which the next player cannot win whatever it does; the one after can.
  RandomRollout rollout;
  Search<Nim3> search({.seed = 1, .uct_c = 1});
  const auto result = search.run(Nim3{.stones = 2}, rollout, Budget::sims(2000));
  EXPECT_EQ(result.action, 2U);
  EXPECT_NEAR(result.value, 1, 0.1);
}

TEST(Search, ChanceIsAveraged) {
  RandomRollout rollout;
  SearchOf<Gamble> search({.seed = 8});
  auto result = search.run(Gamble{}, rollout, Budget::sims(20000));
  EXPECT_EQ(result.action, 1U);
  for (const auto& e : result.edges) {
    EXPECT_NEAR(e.value, e.action == 0 ? 0.4 : 0.5, 0.02);
  }
  result = search.run(Gamble{.luck = 0.2}, rollout, Budget::sims(20000));
  EXPECT_EQ(result.action, 0U);
  // Chance states are never evaluated: one evaluation of the root, the rest ends in terminal states.
  EXPECT_EQ(result.counters.evaluations, 1U);
}

TEST(Search, RewardsOnTheWayAreDiscounted) {
  UniformEvaluator uniform;
  SearchOf<Corridor> patient({.seed = 1, .uct_c = 1, .discount = 1});
  auto result = patient.run(Corridor{}, uniform, Budget::sims(5000));
  EXPECT_EQ(result.action, 1U);  // 1 - 0.3 against 0.2
  EXPECT_EQ(result.principal_variation, std::vector<Action>({1, 1, 1, 1}));
  SearchOf<Corridor> hasty({.seed = 1, .uct_c = 1, .discount = 0.5});
  result = hasty.run(Corridor{}, uniform, Budget::sims(5000));
  EXPECT_EQ(result.action, 0U);  // 0.125 - 0.175 against 0.2
}

TEST(Search, WideningFindsTheBestOfInfinitelyManyActions) {
  RandomRollout rollout;
  Search<Target, WideningPolicies> search(
      {.seed = 6, .uct_c = 0.3, .widening_k = 2, .widening_alpha = 0.5});
  const auto result = search.run(Target{}, rollout, Budget::sims(4000));
  ASSERT_TRUE(result.action.has_value());
  EXPECT_NEAR(*result.action, 0.7, 0.02);
  EXPECT_GE(result.edges.size(), 100U);
  EXPECT_LE(result.edges.size(), 130U);  // 2 * sqrt(4000) = 126
  EXPECT_EQ(edge_visits(result) + 1, 4000U);
  // The same with several descents under way while blocks grow.
  SearchConfig config{
      .seed = 6, .uct_c = 0.3, .widening_k = 2, .parallelism = Parallelism::kDeterministic};
  Search<Target, WideningPolicies> batched(config);
  const auto same = batched.run(Target{}, rollout, Budget::sims(4000));
  EXPECT_NEAR(*same.action, 0.7, 0.02);
  EXPECT_EQ(edge_visits(same) + 1, 4000U);
}

TEST(Search, WideningLimitsTheOpenEdgesOfADiscreteGame) {
  RandomRollout rollout;
  SearchOf<HashTree<200, 3>, WideningPolicies> search(
      {.seed = 6, .widening_k = 1, .widening_alpha = 0.5});
  const auto result = search.run(HashTree<200, 3>{}, rollout, Budget::sims(400));
  const auto open = std::count_if(result.edges.begin(), result.edges.end(),
                                  [](const auto& e) { return e.visits > 0; });
  EXPECT_EQ(open, 20);  // ceil(sqrt(399))
}

TEST(Search, OneSimulationNamesASampledAction) {
  RandomRollout rollout;
  Search<Target, WideningPolicies> search({.seed = 1});
  const auto result = search.run(Target{}, rollout, Budget::sims(1));
  EXPECT_TRUE(result.edges.empty());
  ASSERT_TRUE(result.action.has_value());
  EXPECT_GE(*result.action, 0);
  EXPECT_LT(*result.action, 1);
  EXPECT_EQ(result.principal_variation, std::vector<float>{*result.action});
  Search<Target, UctPolicies> lists({.seed = 1});  // and there is no list
  EXPECT_THROW(lists.run(Target{}, rollout, Budget::sims(1)), Error);
}

}  // namespace
}  // namespace mstrain::mcts
