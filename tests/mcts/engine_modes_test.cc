// The other ways to search: batches of trees, learned models, information sets, open loop, graphs, cache, registry.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "mcts/any_search.h"
#include "mcts/evaluators.h"
#include "mcts/search/batch_search.h"
#include "mcts/search/eval_cache.h"
#include "mcts/search/graph_search.h"
#include "mcts/search/keyed_search.h"
#include "mcts/search/muzero.h"
#include "tests/mcts/engine_games.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder
using Tree5 = HashTree<5, 6>;

std::map<Action, uint32_t> visit_table(const std::vector<RootEdge<Action>>& edges) {
  std::map<Action, uint32_t> table;
  for (const auto& e : edges) {
    table[e.action] = e.visits;
  }
  return table;
}

TEST(BatchSearch, EveryTreeIsTheSearchThatItWouldBeAlone) {
  Pure pure;
  std::vector<std::map<Action, uint32_t>> first;
  for (const BatchOptions& options :
       {BatchOptions{7, 1, 1}, BatchOptions{7, 3, 1}, BatchOptions{7, 2, 3}}) {
    BatchSearch<Tree5> search({.seed = 4}, options);
    for (int64_t i = 0; i < 7; ++i) {
      Tree5 root;
      root.apply(static_cast<Action>(i % 5));
      search.set_root(i, root);
    }
    search.run(pure, 200);
    std::vector<std::map<Action, uint32_t>> tables;
    for (int64_t i = 0; i < 7; ++i) {
      EXPECT_EQ(search.tree(i).root_visits(), 200U);
      tables.push_back(visit_table(search.tree(i).root_edges()));
    }
    first = first.empty() ? tables : first;
    EXPECT_EQ(tables, first);
  }
}

TEST(BatchSearch, AnEvaluatorThatThrowsEndsTheRun) {
  struct Throws {
    int left = 5;
    void evaluate(EvalBatch<Tree5>&) {
      if (--left == 0) {
        throw Error("the network is gone");
      }
    }
  };
  for (const int64_t groups : {1, 3}) {
    BatchSearch<Tree5> search({.seed = 4}, {.trees = 9, .groups = groups});
    for (int64_t i = 0; i < 9; ++i) {
      search.set_root(i, Tree5{});
    }
    Throws throws;
    EXPECT_THROW(search.run(throws, 100), Error);
    for (int64_t i = 0; i < 9; ++i) {
      search.set_root(i, Tree5{});
    }
    Pure pure;
    search.run(pure, 50);
    EXPECT_EQ(search.tree(8).root_visits(), 50U);
  }
}

// A bandit as a learned model: action a pays a fixed reward, the state never changes.
TEST(MuZero, FindsTheBestActionOfABandit) {
  for (const bool gumbel : {false, true}) {
    MuZeroConfig config{
        .roots = 3, .actions = 6, .simulations = 60, .discount = 0.9, .gumbel = gumbel, .seed = 5};
    MuZeroSearch search(config);
    const std::vector<float> logits(3 * 6, 0.0F);
    search.set_roots(logits, std::vector<float>(3, 0.0F));
    std::vector<uint32_t> nodes(3);
    std::vector<uint32_t> actions(3);
    std::vector<std::set<std::pair<uint32_t, uint32_t>>> seen(3);
    for (int s = 0; s < 60; ++s) {
      search.gather(nodes, actions);
      std::vector<float> rewards(3);
      for (int i = 0; i < 3; ++i) {
        EXPECT_LE(nodes[i], static_cast<uint32_t>(s));
        EXPECT_TRUE(
            seen[i].emplace(nodes[i], actions[i]).second);  // every simulation makes a new node
        rewards[i] = actions[i] == static_cast<uint32_t>(i + 1) ? 1.0F : 0.0F;
      }
      search.scatter(rewards, std::vector<float>(3, 0.0F), logits);
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(search.best_action(i), static_cast<uint32_t>(i + 1)) << gumbel;
      const auto visits = search.visits(i);
      EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0U), 60U);
      const auto policy = search.policy(i);
      EXPECT_NEAR(std::accumulate(policy.begin(), policy.end(), 0.0F), 1, 1e-5);
      EXPECT_GT(search.action_values(i)[i + 1], 0.99F);
    }
    EXPECT_GT(search.bytes_moved(), 0U);
  }
}

// Actions whose values differ by a thousandth: stretched to [0, 1] they make a firm opinion, within the spread none.
TEST(MuZero, ValuesWithinTheSpreadAreNoOpinion) {
  for (const double spread : {0.0, 1.0}) {
    const MuZeroConfig config{.actions = 3,
                              .simulations = 30,
                              .discount = 0.9,
                              .gumbel = true,
                              .gumbel_spread = spread,
                              .seed = 5};
    MuZeroSearch search(config);
    search.set_roots(std::vector<float>(3, 0.0F), std::vector<float>(1, 0.0F));
    std::vector<uint32_t> node(1), action(1);
    for (int s = 0; s < 30; ++s) {
      search.gather(node, action);
      search.scatter(std::vector<float>{0.001F * static_cast<float>(action[0])},
                     std::vector<float>(1, 0.0F), std::vector<float>(3, 0.0F));
    }
    const auto policy = search.policy(0);
    EXPECT_GT(policy[2], policy[0]);
    EXPECT_EQ(policy[2] > 0.6F, spread == 0) << policy[2];
    EXPECT_EQ(policy[2]<0.36F, spread> 0) << policy[2];
  }
}

TEST(MuZero, IllegalActionsAreNeverTakenAndThreadsChangeNothing) {
  const float never = -std::numeric_limits<float>::infinity();
  std::vector<std::vector<uint32_t>> first;
  for (const int64_t threads : {1, 3}) {
    MuZeroConfig config{.roots = 5,
                        .actions = 11,
                        .simulations = 80,
                        .players = 2,
                        .noise_fraction = 0.25,
                        .seed = 5,
                        .threads = threads};
    MuZeroSearch search(config);
    std::vector<float> logits(5 * 11);
    Random rng(1);
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = i % 3 == 0 ? never : static_cast<float>(rng.normal());
    }
    search.set_roots(logits, std::vector<float>(5, 0.1F));
    std::vector<uint32_t> nodes(5);
    std::vector<uint32_t> actions(5);
    for (int s = 0; s < 80; ++s) {
      search.gather(nodes, actions);
      std::vector<float> rewards(5);
      std::vector<float> values(5);
      for (int i = 0; i < 5; ++i) {
        EXPECT_NE((i * 11 + static_cast<int>(actions[i])) % 3, 0);
        values[i] = static_cast<float>(hash_mix(nodes[i] * 100 + actions[i]) % 100) / 100.0F - 0.5F;
      }
      search.scatter(rewards, values, logits);
    }
    std::vector<std::vector<uint32_t>> all;
    for (int i = 0; i < 5; ++i) {
      all.push_back(search.visits(i));
    }
    first = first.empty() ? all : first;
    EXPECT_EQ(all, first);
  }
}

// A tenth is no sum of powers of two, so a float's sum of many drifts.
TEST(MuZero, MeansOfEqualValuesAreThatValue) {
  constexpr int kSimulations = 100'000;
  MuZeroSearch search({.actions = 2, .simulations = kSimulations});
  const std::vector<float> logits(2, 0.0F);
  const std::vector<float> tenth(1, 0.1F);
  search.set_roots(logits, tenth);
  std::vector<uint32_t> node(1);
  std::vector<uint32_t> action(1);
  for (int s = 0; s < kSimulations; ++s) {
    search.gather(node, action);
    search.scatter(std::vector<float>(1, 0.0F), tenth, logits);
  }
  EXPECT_NEAR(search.value(0), 0.1, 1e-6);
  for (const float value : search.action_values(0)) {
    EXPECT_NEAR(value, 0.1, 1e-6);
  }
}

// Sampled actions: the network names three numbers at each node; the reward is largest near 0.3.
TEST(MuZero, SampledActionsComeBackAsTheyWereGiven) {
  struct Model : RecurrentEvaluator {
    int64_t hidden_size() const override { return 1; }
    void recurrent(int64_t count, std::span<const float> hidden, std::span<const uint32_t>,
                   std::span<const float> vectors, std::span<float> next, std::span<float> rewards,
                   std::span<float> values, std::span<float> logits,
                   std::span<float> sampled) override {
      for (int64_t i = 0; i < count; ++i) {
        next[i] = hidden[i] + 1;
        rewards[i] = 1 - std::abs(vectors[i] - 0.3F);
        values[i] = 0;
      }
      std::fill(logits.begin(), logits.end(), 0.0F);
      std::fill(sampled.begin(), sampled.end(), 0.9F);
    }
  } model;
  MuZeroConfig config{
      .roots = 2, .actions = 3, .simulations = 30, .discount = 0.5, .action_size = 1};
  MuZeroSearch search(config);
  search.set_roots(std::vector<float>(6, 0.0F), std::vector<float>(2, 0.0F),
                   std::vector<float>{0.9F, 0.3F, 0.6F, 0.0F, 0.8F, 0.35F});
  run_muzero(search, config, model, std::vector<float>(2, 0.0F));
  EXPECT_EQ(search.best_action(0), 1U);
  EXPECT_EQ(search.best_action(1), 2U);
}

// A gamble, or 1.5 for sure. Behind the gamble chance shows one of three codes, with shares 0.5, 0.3 and 0.2, and then one of two
// actions pays 1, 2 or 4. Who looks first and then acts has 0.5 * 1 + 0.3 * 2 + 0.2 * 4 = 1.9 of it.
TEST(MuZero, ActionsAreChosenBehindWhatChanceShows) {
  constexpr uint32_t kMoves = 2, kCodes = 3;
  struct Model : RecurrentEvaluator {
    enum State : int { kStart, kGambled, kSure, kSeen, kPaid = kSeen + kCodes, kOver };
    int64_t hidden_size() const override { return 2; }  // the state, what it will pay
    void recurrent(int64_t count, std::span<const float> hidden, std::span<const uint32_t> actions,
                   std::span<const float>, std::span<float> next, std::span<float> rewards,
                   std::span<float> values, std::span<float> logits, std::span<float>) override {
      for (int64_t i = 0; i < count; ++i) {
        const auto state = static_cast<int>(hidden[2 * i]);
        const bool is_code = actions[i] >= kMoves;
        EXPECT_EQ(is_code, state == kGambled || state == kSure || state == kPaid);
        const uint32_t which = is_code ? actions[i] - kMoves : actions[i];
        int then = kPaid;
        float pays = 0;
        if (state == kStart) {
          then = which == 0 ? kGambled : kSure;
          pays = which == 0 ? 0 : 1.5F;
        } else if (state >= kSeen && state < kPaid) {
          const auto code = static_cast<uint32_t>(state - kSeen);
          pays = which == code % 2 ? static_cast<float>(1U << code) : 0;
        } else if (is_code) {
          then = state == kGambled ? kSeen + static_cast<int>(which) : kOver;
        }
        next[2 * i] = static_cast<float>(then);
        next[2 * i + 1] = pays;
        rewards[i] = is_code ? hidden[2 * i + 1] : 100;  // of an afterstate nobody asks
        values[i] = is_code ? 0 : pays;
        const std::vector<float> said{0, 0, std::log(0.5F), std::log(0.3F), std::log(0.2F)};
        std::copy(said.begin(), said.end(), logits.begin() + i * (kMoves + kCodes));
      }
    }
  } model;
  for (const bool gumbel : {false, true}) {
    const MuZeroConfig config{.actions = kMoves,
                              .simulations = 3000,
                              .gumbel = gumbel,
                              .chance_codes = kCodes,
                              .seed = 3};
    MuZeroSearch search(config);
    search.set_roots(std::vector<float>(kMoves, 0.0F), std::vector<float>(1, 0.0F));
    run_muzero(search, config, model, std::vector<float>(2, 0.0F));
    EXPECT_EQ(search.best_action(0), 0U) << gumbel;
    EXPECT_NEAR(search.action_values(0)[0], 1.9, 0.15) << gumbel;  // exploring costs
    EXPECT_NEAR(search.action_values(0)[1], 1.5, 1e-3) << gumbel;
    EXPECT_EQ(search.policy(0).size(), kMoves);
  }
}

TEST(MuZero, WrongSizesAndNumbersAreNamed) {
  MuZeroSearch search({.roots = 2, .actions = 3, .simulations = 4});
  std::vector<uint32_t> two(2);
  EXPECT_THROW(search.gather(two, two), Error);
  EXPECT_THROW(search.set_roots(std::vector<float>(5), std::vector<float>(2)), Error);
  const float never = -std::numeric_limits<float>::infinity();
  EXPECT_THROW(search.set_roots(std::vector<float>(6, never), std::vector<float>(2)), Error);
  search.set_roots(std::vector<float>(6), std::vector<float>(2));
  search.gather(two, two);
  EXPECT_THROW(
      search.scatter(std::vector<float>(2, NAN), std::vector<float>(2), std::vector<float>(6)),
      Error);
  EXPECT_THROW(search.scatter(std::vector<float>(2), std::vector<float>(2), std::vector<float>(7)),
               Error);
  search.scatter(std::vector<float>(2), std::vector<float>(2), std::vector<float>(6));
  EXPECT_THROW(MuZeroSearch({.roots = 0}), Error);
  EXPECT_THROW(MuZeroSearch({.actions = 65000, .chance_codes = 1000}), Error);
}

// Guess a hidden coin: player 0 saw nothing, so no action is better than another for the first guess, and a search that
// peeked would see value 1.
struct HiddenCoin {
  static constexpr int kPlayers = 1;
  int coin = 0;  // 0 or 1, hidden until the end
  int guess = -1;
  int player() const { return guess < 0 ? 0 : kTerminal; }
  void legal(ActionBuffer& out) const {
    out.push(0);
    out.push(1);
  }
  void apply(Action a) { guess = static_cast<int>(a); }
  Returns<1> returns() const { return {guess == coin ? 1.0F : -1.0F}; }
  void determinize(int, Random& rng) { coin = rng.uniform() < 0.7 ? 1 : 0; }
  uint64_t information_key(int) const { return static_cast<uint64_t>(guess + 1); }
};

TEST(InformationSearch, DoesNotPeek) {
  RandomRollout rollout;
  InformationSearch<HiddenCoin> search({.seed = 1});
  for (const int coin : {0, 1}) {
    const auto result = search.run(HiddenCoin{.coin = coin}, rollout, Budget::sims(4000));
    EXPECT_EQ(result.action, 1U);
    for (const auto& e : result.edges) {
      EXPECT_NEAR(e.value, e.action == 1 ? 0.4 : -0.4,
                  4 / std::sqrt(e.visits));  // four standard errors
    }
    const auto shares = search.policy(HiddenCoin{});
    ASSERT_EQ(shares.size(), 2U);
    EXPECT_NEAR(shares[0].second + shares[1].second, 1, 1e-9);
  }
}

TEST(OpenLoop, AveragesChanceUnderOneNode) {
  RandomRollout rollout;
  OpenLoopSearch<Gamble> search({.seed = 1});
  EXPECT_EQ(search.run(Gamble{}, rollout, Budget::sims(4000)).action, 1U);
  EXPECT_EQ(search.run(Gamble{.luck = 0.2}, rollout, Budget::sims(4000)).action, 0U);
  OpenLoopSearch<Corridor> corridor({.seed = 1, .uct_c = 1});
  EXPECT_EQ(corridor.run(Corridor{}, rollout, Budget::sims(4000)).action, 1U);
}

TEST(GraphSearch, MergesTranspositionsAndPlaysNimRight) {
  RandomRollout rollout;
  for (const int stones : {5, 6, 7, 9, 10}) {
    GraphSearch<Nim> search({.seed = 2});
    const auto result = search.run(Nim{.stones = stones}, rollout, Budget::sims(2000));
    EXPECT_EQ(result.action, static_cast<Action>(stones % 4)) << stones;
    EXPECT_LE(search.node_count(),
              static_cast<size_t>(2 * stones + 2));  // stones left, mover: all there is
    EXPECT_GT(search.transpositions(), 0U);
    uint64_t visits = 0;
    for (const auto& e : result.edges) {
      visits += e.visits;
      EXPECT_LE(std::abs(e.value), 1);
    }
    EXPECT_EQ(visits + 1, 2000U);
    search.advance(*result.action);
    EXPECT_EQ(search.run(rollout, Budget::sims(500)).counters.simulations, 500U);
    EXPECT_THROW(search.advance(77), Error);
  }
}

TEST(EvalCache, AsksOnceForEachPosition) {
  Pure pure;
  EvalCache cache(1000, 4);
  CachedEvaluator<Pure> cached(pure, cache);
  Search<Nim, PuctPolicies> search({.seed = 2});
  const auto with = search.run(Nim{}, cached, Budget::sims(800));
  EXPECT_LE(pure.asked, 21);  // positions that Nim has
  EXPECT_EQ(cache.size(), pure.asked);
  EXPECT_GT(cache.hits(), 0);
  const auto without = search.run(Nim{}, pure, Budget::sims(800));
  EXPECT_EQ(visit_table(with.edges), visit_table(without.edges));
}

TEST(EvalCache, DropsTheLeastRecentlyUsed) {
  EvalCache cache(4, 1);
  EvalCache::Entry entry{{1}, {}};
  for (uint64_t key = 0; key < 4; ++key) {
    cache.insert(key, entry);
  }
  EXPECT_TRUE(cache.find(0, entry));
  cache.insert(9, entry);
  EXPECT_TRUE(cache.find(0, entry));
  EXPECT_FALSE(cache.find(1, entry));
  EXPECT_EQ(cache.size(), 4);
  EXPECT_THROW(EvalCache(0), Error);
}

struct MineOnly : UctPolicies {
  using Select = Ucb1Tuned;
};

TEST(Registry, MakesSearchesByName) {
  SearchRegistry<AnyGame> registry;
  registry.add<MineOnly>("mine");
  RandomRollout rollout;
  AnyEvaluator<AnyGame> any(rollout);
  for (const std::string& name : registry.names()) {
    if (name == "gumbel" || name == "information_set") {
      continue;  // the first trusts its evaluator, see EveryPolicy; Nim hides nothing
    }
    auto search = registry.make(name, {.seed = 1, .uct_c = 1, .widening_k = 3});
    search->set_root(any_game(Nim{.stones = 7}));
    EXPECT_EQ(search->run(any, Budget::sims(4000)).action, 3U) << name;
  }
  // The wrapped search is the plain one.
  Search<Nim, PuctPolicies> plain({.seed = 1});
  auto named = registry.make("puct", {.seed = 1});
  named->set_root(any_game(Nim{}));
  EXPECT_EQ(visit_table(named->run(any, Budget::sims(500)).edges),
            visit_table(plain.run(Nim{}, rollout, Budget::sims(500)).edges));
  EXPECT_THROW(registry.add<MineOnly>("mine"), Error);
  try {
    registry.make("puctt", {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "search: there is no policy puctt; did you mean puct?");
  }
}

}  // namespace
}  // namespace mstrain::mcts
