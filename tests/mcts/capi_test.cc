// The C interface: the same search, errors as codes, nothing thrown.
#include "mcts/c_api/mstrain_mcts.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "mcts/evaluators.h"
#include "mcts/games/connect_four.h"
#include "mcts/search/search.h"

namespace mstrain::mcts {
namespace {

struct GameHandle {
  mst_mcts_search* search = nullptr;
  GameHandle(const mst_mcts_game* game, const char* policy, const char* config) {
    EXPECT_EQ(mst_mcts_create(game, policy, config, &search), MST_MCTS_OK) << mst_mcts_last_error();
  }
  ~GameHandle() { mst_mcts_destroy(search); }
};

const mst_mcts_game& connect_four() {
  const mst_mcts_game* game = nullptr;
  EXPECT_EQ(mst_mcts_find_game("connect_four", &game), MST_MCTS_OK);
  return *game;
}

std::vector<char> first_state(const mst_mcts_game& game) {
  std::vector<char> state(game.state_size);
  EXPECT_EQ(mst_mcts_initial_state(&game, state.data()), MST_MCTS_OK);
  return state;
}

TEST(CApi, SearchesLikeTheCxxLibrary) {
  const mst_mcts_game& game = connect_four();
  GameHandle h(&game, "uct", "{seed: 3, uct_c: 1.5}");
  ASSERT_EQ(mst_mcts_set_root(h.search, first_state(game).data()), MST_MCTS_OK);
  const mst_mcts_budget budget{2000, 0, 0};
  ASSERT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK)
      << mst_mcts_last_error();
  mst_mcts_summary summary{};
  ASSERT_EQ(mst_mcts_result(h.search, &summary), MST_MCTS_OK);
  EXPECT_EQ(summary.simulations, 2000U);
  EXPECT_EQ(summary.edges, 7U);
  EXPECT_EQ(summary.best_action, 3);
  std::array<mst_mcts_edge, 7> edges{};
  uint32_t count = 0;
  ASSERT_EQ(mst_mcts_edges(h.search, edges.data(), 7, &count), MST_MCTS_OK);
  EXPECT_EQ(count, 7U);
  uint64_t visits = 0;
  for (const auto& e : edges) {
    visits += e.visits;
  }
  EXPECT_EQ(visits + 1, 2000U);
  ASSERT_EQ(mst_mcts_principal_variation(h.search, nullptr, 0, &count), MST_MCTS_OK);
  EXPECT_GE(count, 2U);
  EXPECT_EQ(mst_mcts_advance(h.search, 3), MST_MCTS_OK);
  EXPECT_EQ(mst_mcts_advance(h.search, 99), MST_MCTS_USAGE);
}

TEST(CApi, EveryPolicyHasItsName) {
  const mst_mcts_game* game = nullptr;
  ASSERT_EQ(mst_mcts_find_game("tic_tac_toe", &game), MST_MCTS_OK);
  // x in two corners of a row and to move: the cell between them wins.
  std::vector<char> state = first_state(*game);
  for (const uint32_t action : {0U, 3U, 2U, 4U}) {
    ASSERT_EQ(game->apply(game->context, state.data(), action), 0);
  }
  for (const char* policy : {"uct", "ucb1", "uct_tuned", "ucb1_tuned", "puct", "gumbel", "rave",
                             "epsilon_greedy", "wu_uct", "widening"}) {
    GameHandle h(game, policy, "{seed: 3, uct_c: 1, widening_k: 9}");
    ASSERT_EQ(mst_mcts_set_root(h.search, state.data()), MST_MCTS_OK);
    const mst_mcts_budget budget{4000, 0, 0};
    ASSERT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK)
        << policy << ": " << mst_mcts_last_error();
    mst_mcts_summary summary{};
    ASSERT_EQ(mst_mcts_result(h.search, &summary), MST_MCTS_OK);
    EXPECT_EQ(summary.simulations, 4000U);
    EXPECT_EQ(summary.best_action, 1) << policy;
  }
}

int constant(void* context, uint32_t count, const void* const*, const float* observations,
             float* values, float* priors) {
  if (context != nullptr) {
    return *static_cast<int*>(context);
  }
  EXPECT_NE(observations, nullptr);
  for (uint32_t i = 0; i < count; ++i) {
    values[2 * i] = 0.5F;
    values[2 * i + 1] = -0.5F;
  }
  for (uint32_t i = 0; priors != nullptr && i < 7 * count; ++i) {
    priors[i] = static_cast<float>(1 + i % 7);
  }
  return 0;
}

TEST(CApi, EvaluatorsAnswerInBatchesAndTheirErrorsAreCodes) {
  const mst_mcts_game& game = connect_four();
  GameHandle h(&game, "puct", "{seed: 3, parallelism: deterministic, batch: 8}");
  mst_mcts_set_root(h.search, first_state(game).data());
  const mst_mcts_budget budget{300, 0, 0};
  ASSERT_EQ(mst_mcts_run(h.search, &budget, constant, nullptr, 1), MST_MCTS_OK)
      << mst_mcts_last_error();
  std::array<mst_mcts_edge, 7> edges{};
  uint32_t count = 0;
  mst_mcts_edges(h.search, edges.data(), 7, &count);
  EXPECT_NEAR(edges[0].prior, 0.25, 1e-3);
  EXPECT_EQ(edges[0].action, 6U);
  mst_mcts_set_root(h.search, first_state(game).data());
  int code = 42;
  EXPECT_EQ(mst_mcts_run(h.search, &budget, constant, &code, 1), MST_MCTS_EVALUATOR);
  EXPECT_EQ(std::string(mst_mcts_last_error()), "evaluator: the callback returned 42");
  // One that writes nothing.
  const auto silent = [](void*, uint32_t, const void* const*, const float*, float*, float*) {
    return 0;
  };
  EXPECT_EQ(mst_mcts_run(h.search, &budget, silent, nullptr, 1), MST_MCTS_EVALUATOR);
}

TEST(CApi, ManySearchesShareABatch) {
  const mst_mcts_game& game = connect_four();
  GameHandle a(&game, "puct", "{seed: 1}");
  GameHandle b(&game, "puct", "{seed: 2}");
  mst_mcts_search* both[] = {a.search, b.search};
  for (mst_mcts_search* s : both) {
    mst_mcts_set_root(s, first_state(game).data());
  }
  std::vector<const void*> states(8);
  std::vector<float> observations(8 * game.observation_size);
  uint32_t counts[2];
  const mst_mcts_budget budget{1000, 0, 0};
  for (int round = 0; round < 40; ++round) {
    ASSERT_EQ(mst_mcts_gather(both, 2, &budget, 4, 8, states.data(), observations.data(), counts),
              MST_MCTS_OK);
    const uint32_t total = counts[0] + counts[1];
    ASSERT_GE(total, 2U);
    std::vector<float> values(2 * total, 0.0F);
    std::vector<float> priors(7 * total, 1.0F);
    EXPECT_EQ(mst_mcts_scatter(both, 2, total + 1, values.data(), priors.data()), MST_MCTS_USAGE);
    ASSERT_EQ(mst_mcts_scatter(both, 2, total, values.data(), priors.data()), MST_MCTS_OK)
        << mst_mcts_last_error();
  }
  EXPECT_EQ(mst_mcts_gather(both, 2, &budget, 4, 7, states.data(), nullptr, counts),
            MST_MCTS_USAGE);
}

// Races: a game for one player with rewards, through the table.
struct Walk {
  int32_t place;
  float paid;
};
mst_mcts_game walk_game() {
  mst_mcts_game g{};
  g.abi_version = MST_MCTS_ABI_VERSION;
  g.players = 1;
  g.state_size = sizeof(Walk);
  g.max_actions = 2;
  g.player = [](void*, const void* s) {
    return static_cast<const Walk*>(s)->place >= 3 ? MST_MCTS_TERMINAL : 0;
  };
  g.legal = [](void*, const void*, uint32_t* out, uint32_t* count) {
    out[0] = 0;
    out[1] = 1;
    *count = 2;
    return 0;
  };
  g.apply = [](void*, void* s, uint32_t a) {
    auto* walk = static_cast<Walk*>(s);
    ++walk->place;
    walk->paid = a == 1 ? 0.25F : 0;
    return 0;
  };
  g.returns = [](void*, const void*, float* out) {
    *out = 0;
    return 0;
  };
  g.rewards = [](void*, const void* s, float* out) {
    *out = static_cast<const Walk*>(s)->paid;
    return 0;
  };
  return g;
}

TEST(CApi, RewardsAreSummed) {
  const mst_mcts_game game = walk_game();
  GameHandle h(&game, "uct", "{seed: 1, uct_c: 0.3}");
  const Walk start{0, 0};
  mst_mcts_set_root(h.search, &start);
  const mst_mcts_budget budget{3000, 0, 0};
  ASSERT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK)
      << mst_mcts_last_error();
  mst_mcts_summary summary{};
  mst_mcts_result(h.search, &summary);
  EXPECT_EQ(summary.best_action, 1);
  EXPECT_NEAR(summary.value, 0.75, 0.05);
}

// Two moves for each of two players, who are paid 0 to 10 each: no loss of one is the other's win.
struct Deal {
  int32_t ply;
  int32_t taken;
};
mst_mcts_game deal_game() {
  mst_mcts_game g{};
  g.abi_version = MST_MCTS_ABI_VERSION;
  g.players = 2;
  g.state_size = sizeof(Deal);
  g.max_actions = 2;
  g.player = [](void*, const void* s) {
    const int ply = static_cast<const Deal*>(s)->ply;
    return ply == 2 ? MST_MCTS_TERMINAL : ply;
  };
  g.legal = [](void*, const void*, uint32_t* out, uint32_t* count) {
    out[0] = 0;
    out[1] = 1;
    *count = 2;
    return 0;
  };
  g.apply = [](void*, void* s, uint32_t a) {
    auto* deal = static_cast<Deal*>(s);
    deal->taken = 2 * deal->taken + static_cast<int32_t>(a);
    ++deal->ply;
    return 0;
  };
  // After 0: {5, 4} or {1, 0}. After 1: {10, 2} or {0, 1}. The second player likes 4 and 2 best, so 1 is right and brings 10.
  g.returns = [](void*, const void* s, float* out) {
    constexpr float kPaid[4][2] = {{5, 4}, {1, 0}, {10, 2}, {0, 1}};
    const int32_t taken = static_cast<const Deal*>(s)->taken;
    out[0] = kPaid[taken][0];
    out[1] = kPaid[taken][1];
    return 0;
  };
  return g;
}

TEST(CApi, ProvesByTheRangeThatAGameStatesAndNotWithoutOne) {
  mst_mcts_game game = deal_game();
  const Deal start{0, 0};
  const mst_mcts_budget budget{200, 0, 0};
  mst_mcts_search* search = nullptr;
  EXPECT_EQ(mst_mcts_create(&game, "uct", "{solve: true}", &search), MST_MCTS_USAGE);
  EXPECT_NE(std::string(mst_mcts_last_error()).find("min_return"), std::string::npos);
  game.max_return = 10;
  for (const char* policy : {"uct", "puct"}) {
    GameHandle h(&game, policy, "{seed: 1, uct_c: 10, solve: true}");
    mst_mcts_set_root(h.search, &start);
    ASSERT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK)
        << mst_mcts_last_error();
    mst_mcts_summary summary{};
    mst_mcts_result(h.search, &summary);
    EXPECT_EQ(summary.proven, 1);
    EXPECT_EQ(summary.value, 10);
    EXPECT_EQ(summary.best_action, 1);
  }
  const auto fails = [&](const char* words) {
    GameHandle h(&game, "uct", "{seed: 1, uct_c: 10}");
    mst_mcts_set_root(h.search, &start);
    EXPECT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_GAME) << words;
    EXPECT_NE(std::string(mst_mcts_last_error()).find(words), std::string::npos)
        << mst_mcts_last_error();
  };
  game.max_return = 7;
  fails("the range stated is [0, 7]");
  game.max_return = 10;
  game.zero_sum = 1;
  fails("zero_sum is stated");
  game.min_return = 11;
  EXPECT_EQ(mst_mcts_create(&game, "uct", nullptr, &search), MST_MCTS_GAME);
}

TEST(CApi, ZeroSumGamesAreSolvedByOneBound) {
  const mst_mcts_game* game = nullptr;
  ASSERT_EQ(mst_mcts_find_game("othello_4x4", &game), MST_MCTS_OK) << mst_mcts_last_error();
  GameHandle h(game, "uct", "{seed: 1, solve: true}");
  mst_mcts_set_root(h.search, first_state(*game).data());
  const mst_mcts_budget budget{200000, 0, 0};
  ASSERT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK);
  mst_mcts_summary summary{};
  mst_mcts_result(h.search, &summary);
  EXPECT_EQ(summary.proven, 1);
  EXPECT_EQ(summary.value, -1);  // the second player wins
}

TEST(CApi, EveryShippedGameIsSearched) {
  int games = 0;
  for (uint32_t i = 0; mst_mcts_game_name(i) != nullptr; ++i, ++games) {
    const mst_mcts_game* game = nullptr;
    ASSERT_EQ(mst_mcts_find_game(mst_mcts_game_name(i), &game), MST_MCTS_OK);
    std::vector<char> state = first_state(*game);
    const bool hidden = game->determinize != nullptr;
    while (game->player(game->context, state.data()) == MST_MCTS_CHANCE) {
      std::vector<uint32_t> actions(game->max_actions);
      std::vector<float> shares(game->max_actions);
      uint32_t count = 0;
      ASSERT_EQ(game->chance(game->context, state.data(), actions.data(), shares.data(), &count),
                0);
      ASSERT_EQ(game->apply(game->context, state.data(), actions[0]), 0);
    }
    for (const char* policy : {"uct", "puct", hidden ? "information_set" : "uct_tuned"}) {
      GameHandle h(game, policy, "{seed: 1}");
      ASSERT_EQ(mst_mcts_set_root(h.search, state.data()), MST_MCTS_OK);
      const mst_mcts_budget budget{300, 0, 0};
      ASSERT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK)
          << mst_mcts_game_name(i) << ": " << mst_mcts_last_error();
      mst_mcts_summary summary{};
      mst_mcts_result(h.search, &summary);
      EXPECT_EQ(summary.simulations, 300U) << mst_mcts_game_name(i);
      EXPECT_GE(summary.best_action, 0);
      EXPECT_EQ(mst_mcts_advance(h.search, static_cast<uint32_t>(summary.best_action)),
                MST_MCTS_OK);
    }
  }
  EXPECT_EQ(games, 18);
}

// Undo where the game has it, hashes for graphs, sampled actions one by one.
TEST(CApi, TakesBackSamplesAndMeetsPositionsAgain) {
  const Deal start{0, 0};
  const mst_mcts_budget budget{2000, 0, 0};
  const auto run = [&](const mst_mcts_game& game, const char* policy) {
    GameHandle h(&game, policy, "{seed: 1, uct_c: 10, puct_c: 10}");
    mst_mcts_set_root(h.search, &start);
    EXPECT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK)
        << mst_mcts_last_error();
    mst_mcts_summary summary{};
    mst_mcts_result(h.search, &summary);
    return summary;
  };
  mst_mcts_game game = deal_game();
  const mst_mcts_summary copied = run(game, "uct");
  game.undo = [](void* taken_back, void* s, uint32_t) {
    auto* deal = static_cast<Deal*>(s);
    deal->taken /= 2;
    --deal->ply;
    ++*static_cast<int*>(taken_back);
    return 0;
  };
  int taken_back = 0;
  game.context = &taken_back;
  const mst_mcts_summary undone = run(game, "uct");
  EXPECT_GT(taken_back, 1000);
  EXPECT_EQ(copied.value, undone.value);
  EXPECT_EQ(copied.best_action, 1);

  mst_mcts_search* search = nullptr;
  EXPECT_EQ(mst_mcts_create(&game, "graph", nullptr, &search), MST_MCTS_USAGE);
  game.hash = [](void*, const void* s) {
    const auto* deal = static_cast<const Deal*>(s);
    return static_cast<uint64_t>(1 + deal->ply * 8 + deal->taken);
  };
  const mst_mcts_summary graph = run(game, "graph");
  EXPECT_EQ(graph.best_action, 1);
  EXPECT_EQ(graph.nodes, 7U);

  game.legal = [](void*, const void*, uint32_t*, uint32_t*) { return 1; };  // must not be asked
  game.sample_action = [](void*, const void*, uint64_t seed, uint32_t* action) {
    *action = static_cast<uint32_t>(seed >> 63U);
    return 0;
  };
  EXPECT_EQ(run(game, "widening").best_action, 1);
}

TEST(CApi, BrokenGamesAndWrongArgumentsAreCodes) {
  mst_mcts_game game = walk_game();
  const Walk start{0, 0};
  const mst_mcts_budget budget{100, 0, 0};
  game.legal = [](void*, const void*, uint32_t*, uint32_t* count) {
    *count = 0;
    return 0;
  };
  {
    GameHandle h(&game, "uct", nullptr);
    mst_mcts_set_root(h.search, &start);
    EXPECT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_GAME);
    EXPECT_NE(std::string(mst_mcts_last_error()).find("no legal action"), std::string::npos);
  }
  game = walk_game();
  game.apply = [](void*, void*, uint32_t) { return 5; };
  {
    GameHandle h(&game, "uct", nullptr);
    mst_mcts_set_root(h.search, &start);
    EXPECT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_GAME);
    EXPECT_EQ(std::string(mst_mcts_last_error()), "game: apply returned 5");
  }
  mst_mcts_search* search = nullptr;
  EXPECT_EQ(mst_mcts_create(nullptr, "uct", nullptr, &search), MST_MCTS_USAGE);
  EXPECT_EQ(mst_mcts_create(&game, "utc", nullptr, &search), MST_MCTS_USAGE);
  EXPECT_EQ(mst_mcts_create(&game, "uct", "{sed: 3}", &search), MST_MCTS_USAGE);
  EXPECT_NE(std::string(mst_mcts_last_error()).find("seed"), std::string::npos)
      << mst_mcts_last_error();
  game.players = 9;
  EXPECT_NE(mst_mcts_create(&game, "uct", nullptr, &search), MST_MCTS_OK);
  EXPECT_EQ(mst_mcts_run(nullptr, &budget, nullptr, nullptr, 0), MST_MCTS_USAGE);
  const mst_mcts_game* found = nullptr;
  EXPECT_EQ(mst_mcts_find_game("conect_four", &found), MST_MCTS_USAGE);
  EXPECT_NE(std::string(mst_mcts_last_error()).find("connect_four"), std::string::npos);
}

}  // namespace
}  // namespace mstrain::mcts
