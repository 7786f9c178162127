// Games whose positions are not all that counts in them, which no graph may search.
#include "mcts/search/graph_search.h"

#include <gtest/gtest.h>

#include "mcts/any_search.h"
#include "mcts/c_api/mstrain_mcts.h"
#include "mcts/evaluators.h"
#include "mcts/games/connect_four.h"
#include "mcts/games/go.h"
#include "tests/core/base/message_of.h"
#include "tests/mcts/engine_games.h"

namespace mstrain::mcts {
namespace {

TEST(GraphSearch, RefusesGamesThatDependOnEarlierPositions) {
  constexpr const char* kMessage =
      "search: positions of this game depend on earlier ones, which a graph does not know; "
      "expected another policy than graph";
  GraphSearch<Go<5>> search({.seed = 1});
  EXPECT_EQ(message_of<Error>([&] { search.set_root(Go<5>()); }), kMessage);
  const auto named = any_searches().make("graph", {.seed = 1});
  EXPECT_EQ(message_of<Error>([&] { named->set_root(any_game(Go<5>())); }), kMessage);
  const mst_mcts_game* game = nullptr;
  ASSERT_EQ(mst_mcts_find_game("go_5x5", &game), MST_MCTS_OK);
  mst_mcts_search* handle = nullptr;
  EXPECT_EQ(mst_mcts_create(game, "graph", nullptr, &handle), MST_MCTS_USAGE);
  mst_mcts_destroy(handle);
}

struct Faceless : testing::Nim {
  uint64_t hash() const { return hash_mix(static_cast<uint64_t>(stones)); }
};

TEST(GraphSearch, NamesAHashThatLeavesOutThePlayer) {
  RandomRollout rollout;
  GraphSearch<Faceless> search({.seed = 1});
  const std::string message =
      message_of<Error>([&] { search.run(Faceless{}, rollout, Budget::sims(500)); });
  EXPECT_NE(message.find("game: states of equal hash() have player"), std::string::npos) << message;
}

// Fails once.
struct FailsAt {
  static constexpr bool kPriors = false;
  int64_t at = 0;
  int64_t asked = 0;
  RandomRollout rollout{};
  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    check(++asked != at, "evaluator: failed");
    rollout.evaluate(batch);
  }
};

TEST(GraphSearch, GoesOnAfterAnErrorAsIfThereHadBeenNone) {
  const auto visits = [](int64_t at, int64_t before) {
    FailsAt evaluator{.at = at};
    GraphSearch<ConnectFour> search({.seed = 1});
    search.set_root(ConnectFour());
    if (at > 0) {
      EXPECT_EQ(message_of<Error>([&] { search.run(evaluator, Budget::sims(before + 1)); }),
                "evaluator: failed");
    } else {
      search.run(evaluator, Budget::sims(before));
    }
    std::vector<uint64_t> out;
    for (const auto& edge : search.run(evaluator, Budget::sims(100)).edges) {
      out.push_back(edge.visits);
    }
    return out;
  };
  for (const int64_t before : {12, 40, 80}) {
    EXPECT_EQ(visits(before + 1, before), visits(0, before));
  }
}

}  // namespace
}  // namespace mstrain::mcts
