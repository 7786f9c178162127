// With `solve`, the move that is played is worth what the position is proven to be.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/base/hash.h"
#include "mcts/evaluators.h"
#include "mcts/search/policies.h"
#include "mcts/search/search.h"
#include "tests/core/base/message_of.h"
#include "tests/mcts/search_of.h"

namespace mstrain::mcts {
namespace {

using testing::SearchOf;

// A tree of up to four actions a node and five deep whose movers and results, -1, 0 or 1, are chance's.
struct Thicket {
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kMaxActions = 4;
  uint64_t key = 0;
  int depth = 0;

  uint64_t chance(uint64_t what) const { return hash_mix(hash_mix(key) + what); }
  int player() const {
    return depth == 5 || (depth > 0 && chance(1) % 9 == 0) ? kTerminal
                                                           : static_cast<int>(chance(2) % 2);
  }
  void legal(ActionBuffer& out) const {
    for (Action a = 0; a <= chance(3) % 4; ++a) {
      out.push(a);
    }
  }
  void apply(Action a) {
    key = hash_mix(4 * key + a);
    ++depth;
  }
  Returns<2> returns() const {
    const float result = static_cast<float>(chance(4) % 3) - 1;
    return {result, -result};
  }
};

// What both sides can be sure of, to player 0.
float minimax(const Thicket& state) {
  const int player = state.player();
  if (player == kTerminal) {
    return state.returns()[0];
  }
  ActionBuffer actions;
  state.legal(actions);
  float best = -2;
  for (const Action a : actions) {
    Thicket next = state;
    next.apply(a);
    best = std::max(best, player == 0 ? minimax(next) : -minimax(next));
  }
  return player == 0 ? best : -best;
}

TEST(Solve, PlaysAMoveThatIsWorthWhatIsProven) {
  using enum Parallelism;
  RandomRollout rollout;
  for (const Parallelism kind : {kSerial, kRoot, kLeaf, kDeterministic}) {
    SearchOf<Thicket> search(
        {.uct_c = 1, .solve = true, .parallelism = kind, .trees = 2, .leaf_evaluations = 2});
    int proven = 0;
    for (uint64_t key = 0; key < 400; ++key) {
      const Thicket state{.key = key};
      const auto result = search.run(state, rollout, Budget::sims(3000));
      if (!result.proven) {
        continue;
      }
      ++proven;
      const float sign = state.player() == 0 ? 1 : -1;
      Thicket next = state;
      next.apply(*result.action);
      EXPECT_EQ(result.value, sign * minimax(state)) << key;
      EXPECT_EQ(sign * minimax(next), result.value)
          << key << ": action " << *result.action << ", parallelism " << static_cast<int>(kind);
    }
    EXPECT_GT(proven, 350);
  }
}

TEST(Solve, NothingIsChosenThatAnotherActionIsSureToBeat) {
  Random rng(1);
  // Most visited before it was known to be no better than a draw; the draw; an action of which nothing is known.
  std::vector<RootEdge<Action>> edges = {
      {.action = 0, .visits = 90, .value = 0.4, .low = -1, .high = 0},
      {.action = 1, .visits = 10, .value = 0, .proven = true, .low = 0, .high = 0},
      {.action = 2, .visits = 9, .value = 0.1, .low = -1, .high = 1}};
  const auto chosen = [&](auto policy) {
    return policy.choose(final_edges(std::span<const RootEdge<Action>>(edges)), 1, -1, rng);
  };
  EXPECT_EQ(chosen(MostVisits({})), 1U);
  EXPECT_EQ(chosen(BestValue({})), 2U);
  edges.resize(2);
  EXPECT_EQ(chosen(BestValue({})), 1U);
  edges[0].high = 1;  // may be better yet
  EXPECT_EQ(chosen(MostVisits({})), 0U);
  EXPECT_EQ(chosen(BestValue({})), 0U);
  edges[1].low = -1;  // nothing is sure, as without `solve`
  EXPECT_EQ(chosen(MostVisits({})), 0U);
}

// A lottery that wins now and then, or 0.7 for sure.
struct DrawnLottery {
  static constexpr int kPlayers = 1;
  int at = 0;
  float paid = 0;
  int player() const { return at == 0 ? 0 : at == 1 ? kChance : kTerminal; }
  void legal(ActionBuffer& out) const {
    out.push(0);
    out.push(1);
  }
  void apply(Action a) {
    paid = at == 0 ? 0.7F : a == 1 ? 1.0F : -1.0F;
    at = at == 0 && a == 0 ? 1 : 2;
  }
  Action sample_chance(Random& rng) const { return rng.uniform() < 0.8 ? 1 : 0; }
  Returns<1> returns() const { return {paid}; }
};

TEST(Solve, RefusesChanceThatIsOnlyDrawn) {
  RandomRollout rollout;
  Search<DrawnLottery> search({.seed = 1, .solve = true});
  EXPECT_EQ(error_of([&] { search.run(DrawnLottery{}, rollout, Budget::sims(1000)); }),
            "search.solve: chance that is only drawn is not all that there is; it needs chance()");
  EXPECT_EQ(
      Search<DrawnLottery>({.seed = 1}).run(DrawnLottery{}, rollout, Budget::sims(3000)).action,
      1U);
}

}  // namespace
}  // namespace mstrain::mcts
