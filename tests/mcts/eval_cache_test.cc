// Positions that share their hash() and yet differ, in a cache of evaluations.
#include "mcts/search/eval_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace mstrain::mcts {
namespace {

struct Lookalike {
  static constexpr int kPlayers = 2;
  float value = 0;
  int player() const { return 0; }
  void legal(ActionBuffer&) const {}
  void apply(Action) {}
  Returns<2> returns() const { return {}; }
  uint64_t hash() const { return 7; }
};

struct Telling {
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = false;
  int asked = 0;
  void evaluate(EvalBatch<Lookalike>& batch) {
    for (auto& item : batch.items) {
      ++asked;
      item.values = {item.state->value, -item.state->value};
      for (size_t a = 0; a < item.actions.size(); ++a) {
        item.priors[a] = static_cast<float>(1 + item.actions[a]);
      }
    }
  }
};

TEST(EvalCache, AsksAgainForAPositionWithOtherActions) {
  const std::array<Lookalike, 4> states{{{0.25F}, {0.5F}, {0.25F}, {0.75F}}};
  const std::array<std::vector<Action>, 4> actions{{{0, 1}, {1, 2}, {1, 0}, {3}}};
  std::array<std::vector<float>, 4> priors;
  std::vector<EvalItem<Lookalike>> items(4);
  for (size_t i = 0; i < 4; ++i) {
    priors[i].resize(actions[i].size());
    items[i].state = &states[i];
    items[i].actions = actions[i];
    items[i].priors = priors[i];
  }
  Telling telling;
  EvalCache cache(100, 1);
  CachedEvaluator<Telling> cached(telling, cache);
  EvalBatch<Lookalike> batch{items};
  cached.evaluate(batch);
  EXPECT_EQ(telling.asked, 3);  // the first and the third have the same actions
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(items[i].values[0], states[i].value) << i;
    for (size_t a = 0; a < actions[i].size(); ++a) {
      EXPECT_EQ(priors[i][a], static_cast<float>(1 + actions[i][a])) << i;
    }
  }
}

}  // namespace
}  // namespace mstrain::mcts
