// What games and evaluators in C do wrong ends in a code and a line, in every mode; the handle lives on.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "mcts/c_api/mstrain_mcts.h"

namespace mstrain::mcts {
namespace {

// Eight plies of two actions for two players; at ply 2 or later one promise is broken.
enum class Fault {
  kNone,
  kPlayer,
  kMissingChance,
  kLegalCode,
  kNoLegal,
  kTooMany,
  kBadAction,
  kActionTwice,
  kApplyCode,
  kReturnsCode,
  kReturnsNan,
  kObserveCode
};
struct State {
  int32_t ply;
};
Fault fault_of(void* context) { return *static_cast<Fault*>(context); }
bool breaks(void* context, const void* state, Fault fault) {
  return fault_of(context) == fault && static_cast<const State*>(state)->ply >= 2;
}

mst_mcts_game broken_game(Fault* fault) {
  mst_mcts_game g{};
  g.abi_version = MST_MCTS_ABI_VERSION;
  g.players = 2;
  g.state_size = sizeof(State);
  g.max_actions = 2;
  g.observation_size = 1;
  g.context = fault;
  g.player = [](void* c, const void* s) {
    const int ply = static_cast<const State*>(s)->ply;
    return breaks(c, s, Fault::kPlayer)          ? 2
           : breaks(c, s, Fault::kMissingChance) ? MST_MCTS_CHANCE
           : ply >= 8                            ? MST_MCTS_TERMINAL
                                                 : ply & 1;
  };
  g.legal = [](void* c, const void* s, uint32_t* out, uint32_t* count) {
    out[0] = breaks(c, s, Fault::kActionTwice) ? 1 : 0;
    out[1] = breaks(c, s, Fault::kBadAction) ? 9 : 1;
    *count = breaks(c, s, Fault::kNoLegal) ? 0 : breaks(c, s, Fault::kTooMany) ? 3 : 2;
    return breaks(c, s, Fault::kLegalCode) ? 11 : 0;
  };
  g.apply = [](void* c, void* s, uint32_t) {
    const int code = breaks(c, s, Fault::kApplyCode) ? 12 : 0;
    ++static_cast<State*>(s)->ply;
    return code;
  };
  g.returns = [](void* c, const void* s, float* out) {
    out[0] = breaks(c, s, Fault::kReturnsNan) ? NAN : 1;
    out[1] = -1;
    return breaks(c, s, Fault::kReturnsCode) ? 13 : 0;
  };
  g.observe = [](void* c, const void* s, int, float* out) {
    *out = 0;
    return breaks(c, s, Fault::kObserveCode) ? 14 : 0;
  };
  return g;
}

const char* const kModes[] = {"serial", "root", "leaf", "tree", "deterministic"};

std::string config_of(const char* mode) {
  return std::string("{seed: 1, threads: 3, parallelism: ") + mode + "}";
}

struct Handle {
  mst_mcts_search* search = nullptr;
  Handle(const mst_mcts_game& game, const char* policy, const std::string& config) {
    EXPECT_EQ(mst_mcts_create(&game, policy, config.c_str(), &search), MST_MCTS_OK)
        << mst_mcts_last_error();
  }
  ~Handle() { mst_mcts_destroy(search); }
};

int zeros(void*, uint32_t count, const void* const*, const float*, float* values, float* priors) {
  std::fill_n(values, 2 * count, 0.0F);
  if (priors != nullptr) {
    std::fill_n(priors, 2 * count, 1.0F);
  }
  return 0;
}

struct Expected {
  Fault fault;
  const char* words;
};
const Expected kFaults[] = {
    {Fault::kPlayer, "game: player gave 2; there are 2 players"},
    {Fault::kMissingChance, "no chance callback"},
    {Fault::kLegalCode, "game: legal returned 11"},
    {Fault::kNoLegal, "has no legal action"},
    {Fault::kTooMany, "game: legal gave 3 actions; max_actions is 2"},
    {Fault::kBadAction, "game: legal gave action 9; max_actions is 2"},
    {Fault::kActionTwice, "game: legal gave action 1 twice"},
    {Fault::kApplyCode, "game: apply returned 12"},
    {Fault::kReturnsCode, "game: returns returned 13"},
    {Fault::kReturnsNan, "game: returns gave player 0 nan"},
};

TEST(CApiErrors, ABrokenGameIsACodeInEveryMode) {
  const mst_mcts_budget budget{3000, 0, 0};
  const State start{0};
  for (const char* mode : kModes) {
    for (const auto& [wrong, words] : kFaults) {
      Fault fault = wrong;
      const mst_mcts_game game = broken_game(&fault);
      Handle h(game, "uct", config_of(mode));
      ASSERT_EQ(mst_mcts_set_root(h.search, &start), MST_MCTS_OK);
      // With an evaluator of its own, so that faults are met in the tree and not in random play.
      EXPECT_EQ(mst_mcts_run(h.search, &budget, zeros, nullptr, 0), MST_MCTS_GAME) << mode;
      EXPECT_NE(std::string(mst_mcts_last_error()).find(words), std::string::npos)
          << mode << ": " << mst_mcts_last_error();
      EXPECT_NE(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK) << mode;
      fault = Fault::kNone;
      ASSERT_EQ(mst_mcts_set_root(h.search, &start), MST_MCTS_OK);
      EXPECT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_OK)
          << mst_mcts_last_error();
    }
    Fault fault = Fault::kObserveCode;
    const mst_mcts_game game = broken_game(&fault);
    Handle h(game, "puct", config_of(mode));
    mst_mcts_set_root(h.search, &start);
    EXPECT_EQ(mst_mcts_run(h.search, &budget, zeros, nullptr, 1), MST_MCTS_GAME) << mode;
    EXPECT_EQ(std::string(mst_mcts_last_error()), "game: observe returned 14");
  }
}

TEST(CApiErrors, OnlyPlayersObserve) {
  const mst_mcts_game* game = nullptr;
  ASSERT_EQ(mst_mcts_find_game("kuhn_poker", &game), MST_MCTS_OK);
  std::vector<std::byte> state(game->state_size);
  ASSERT_EQ(mst_mcts_initial_state(game, state.data()), MST_MCTS_OK);
  std::vector<float> seen(game->observation_size);
  for (const int player : {-2, -1, 0, 1, 2}) {
    EXPECT_EQ(game->observe(game->context, state.data(), player, seen.data()) == 0,
              player == 0 || player == 1);
  }
}

TEST(CApiErrors, ABrokenGameIsACodeInRandomPlay) {
  const mst_mcts_budget budget{100, 0, 0};
  const State start{0};
  for (const auto& [wrong, words] : kFaults) {
    Fault fault = wrong;
    const mst_mcts_game game = broken_game(&fault);
    Handle h(game, "uct", "{seed: 1}");
    ASSERT_EQ(mst_mcts_set_root(h.search, &start), MST_MCTS_OK);
    EXPECT_EQ(mst_mcts_run(h.search, &budget, nullptr, nullptr, 0), MST_MCTS_GAME) << words;
    EXPECT_NE(std::string(mst_mcts_last_error()).find(words), std::string::npos)
        << mst_mcts_last_error();
  }
}

TEST(CApiErrors, ABrokenGameIsACodeInABatchOfSearches) {
  const State start{0};
  for (const auto& [wrong, words] : kFaults) {
    Fault good = Fault::kNone;
    Fault fault = wrong;
    const mst_mcts_game games[] = {broken_game(&good), broken_game(&fault)};
    Handle a(games[0], "puct", "{seed: 1}");
    Handle b(games[1], "puct", "{seed: 2}");
    mst_mcts_search* both[] = {a.search, b.search};
    mst_mcts_set_root(a.search, &start);
    mst_mcts_set_root(b.search, &start);
    std::vector<float> observations(4);
    const std::vector<float> values(8, 0.0F);
    const std::vector<float> priors(8, 1.0F);
    uint32_t counts[2];
    const mst_mcts_budget budget{8000, 0, 0};
    int code = MST_MCTS_OK;
    for (int round = 0; round < 2000 && code == MST_MCTS_OK; ++round) {
      code = mst_mcts_gather(both, 2, &budget, 2, 4, nullptr, observations.data(), counts);
      if (code == MST_MCTS_OK) {
        code = mst_mcts_scatter(both, 2, counts[0] + counts[1], values.data(), priors.data());
      }
    }
    EXPECT_EQ(code, MST_MCTS_GAME);
    EXPECT_NE(std::string(mst_mcts_last_error()).find(words), std::string::npos)
        << mst_mcts_last_error();
  }
}

// What the evaluator writes into its first row from the tenth call on.
struct Bad {
  float value;
  float prior;
  int code;
  int calls = 0;
};
int bad(void* context, uint32_t count, const void* const* states, const float* observations,
        float* values, float* priors) {
  auto& b = *static_cast<Bad*>(context);
  zeros(nullptr, count, states, observations, values, priors);
  if (++b.calls < 10) {
    return 0;
  }
  values[0] = b.value;
  if (priors != nullptr) {
    priors[0] = b.prior;
  }
  return b.code;
}

TEST(CApiErrors, ABrokenEvaluatorIsACodeInEveryMode) {
  const Bad kinds[] = {{NAN, 1, 0}, {-INFINITY, 1, 0}, {0, NAN, 0}, {0, -1, 0}, {0, 1, 42}};
  const mst_mcts_budget budget{300, 0, 0};
  const State start{0};
  Fault none = Fault::kNone;
  const mst_mcts_game game = broken_game(&none);
  for (const char* mode : kModes) {
    for (const Bad& kind : kinds) {
      Handle h(game, "puct", config_of(mode));
      mst_mcts_set_root(h.search, &start);
      Bad now = kind;
      EXPECT_EQ(mst_mcts_run(h.search, &budget, bad, &now, 1), MST_MCTS_EVALUATOR) << mode;
      EXPECT_EQ(std::string(mst_mcts_last_error()).find("evaluator: "), 0U)
          << mode << ": " << mst_mcts_last_error();
      EXPECT_EQ(mst_mcts_run(h.search, &budget, zeros, nullptr, 1), MST_MCTS_OK)
          << mst_mcts_last_error();
    }
  }
}

void expect_nothing(const mst_mcts_search* search, const std::string& when) {
  mst_mcts_summary summary{};
  uint32_t actions = 1;
  ASSERT_EQ(mst_mcts_result(search, &summary), MST_MCTS_OK) << mst_mcts_last_error();
  ASSERT_EQ(mst_mcts_principal_variation(search, nullptr, 0, &actions), MST_MCTS_OK);
  EXPECT_EQ(summary.best_action, -1) << when;
  EXPECT_EQ(summary.edges, 0U) << when;
  EXPECT_EQ(summary.simulations, 0U) << when;
  EXPECT_EQ(summary.evaluations, 0U) << when;
  EXPECT_EQ(actions, 0U) << when;
}

TEST(CApiErrors, NothingIsKnownOfARootThatNoRunLookedAt) {
  Fault none = Fault::kNone;
  const mst_mcts_game game = broken_game(&none);
  const State start{0};
  const mst_mcts_budget budget{100, 0, 0};
  for (const char* policy : {"puct", "uct"}) {
    for (const char* mode : kModes) {
      const std::string where = std::string(policy) + ", " + mode;
      Handle h(game, policy, config_of(mode));
      mst_mcts_set_root(h.search, &start);
      expect_nothing(h.search, where);
      Bad evaluator{NAN, -1, 0, /*calls=*/8};
      EXPECT_EQ(mst_mcts_run(h.search, &budget, bad, &evaluator, 1), MST_MCTS_EVALUATOR) << where;
      expect_nothing(h.search, where + " that failed");
      ASSERT_EQ(mst_mcts_run(h.search, &budget, zeros, nullptr, 1), MST_MCTS_OK) << where;
      mst_mcts_summary summary{};
      mst_mcts_result(h.search, &summary);
      EXPECT_GE(summary.simulations, 100U) << where;
      EXPECT_GE(summary.best_action, 0) << where;
      mst_mcts_set_root(h.search, &start);
      expect_nothing(h.search, where + " with another root");
    }
  }
}

TEST(CApiErrors, ABatchThatIsRefusedLeavesAllSearchesAsTheyWere) {
  Fault none = Fault::kNone;
  const mst_mcts_game game = broken_game(&none);
  const State start{0};
  Handle a(game, "puct", "{seed: 1}");
  Handle b(game, "puct", "{seed: 2}");
  mst_mcts_set_root(a.search, &start);
  const mst_mcts_budget budget{1000, 0, 0};
  uint32_t counts[2];
  const auto gather = [&](std::vector<mst_mcts_search*> searches) {
    return mst_mcts_gather(searches.data(), static_cast<uint32_t>(searches.size()), &budget, 1, 2,
                           nullptr, nullptr, counts);
  };
  EXPECT_EQ(gather({a.search, b.search}), MST_MCTS_USAGE);
  EXPECT_STREQ(mst_mcts_last_error(), "gather: search 1 has no root; call set_root() first");
  EXPECT_EQ(gather({a.search, a.search}), MST_MCTS_USAGE);
  EXPECT_STREQ(mst_mcts_last_error(), "gather: search 1 is listed twice");
  EXPECT_EQ(gather({a.search}), MST_MCTS_OK) << mst_mcts_last_error();
  ASSERT_EQ(counts[0], 1U);
  mst_mcts_set_root(b.search, &start);
  EXPECT_EQ(gather({b.search, a.search}), MST_MCTS_USAGE);
  EXPECT_EQ(gather({b.search}), MST_MCTS_OK) << mst_mcts_last_error();
  mst_mcts_search* both[] = {a.search, b.search};
  const std::vector<float> values(4, 0.0F);
  const std::vector<float> priors(4, 1.0F);
  EXPECT_EQ(mst_mcts_scatter(both, 2, 2, values.data(), priors.data()), MST_MCTS_OK);
  EXPECT_EQ(gather({a.search, b.search}), MST_MCTS_OK) << mst_mcts_last_error();
}

TEST(CApiErrors, NumbersOutOfRangeAreNamed) {
  Fault none = Fault::kNone;
  mst_mcts_game game = broken_game(&none);
  const State start{0};
  Handle h(game, "uct", "{seed: 1}");
  mst_mcts_set_root(h.search, &start);
  const auto run = [&](double milliseconds) {
    const mst_mcts_budget budget{20, milliseconds, 0};
    return mst_mcts_run(h.search, &budget, nullptr, nullptr, 0);
  };
  for (const double limit : {-1.0, -5.0, static_cast<double>(NAN)}) {
    EXPECT_EQ(run(limit), MST_MCTS_USAGE) << limit;
    EXPECT_NE(std::string(mst_mcts_last_error()).find("budget: milliseconds"), std::string::npos);
  }
  for (const double limit : {0.0, 1e13, 1e300, static_cast<double>(INFINITY)}) {
    EXPECT_EQ(run(limit), MST_MCTS_OK) << limit << ": " << mst_mcts_last_error();
  }
  game.max_actions = 0xffffffffU;
  mst_mcts_search* search = nullptr;
  EXPECT_EQ(mst_mcts_create(&game, "uct", "{}", &search), MST_MCTS_GAME);
  EXPECT_STREQ(mst_mcts_last_error(), "game: max_actions is 4294967295; expected 1 to 16777216");
  EXPECT_EQ(search, nullptr);
}

TEST(CApiErrors, WrongAnswersToABatchAreRefusedAndMayBeGivenAgain) {
  Fault none = Fault::kNone;
  const mst_mcts_game game = broken_game(&none);
  const State start{0};
  Handle h(game, "puct", "{seed: 1}");
  mst_mcts_set_root(h.search, &start);
  uint32_t count = 0;
  const mst_mcts_budget budget{10000, 0, 0};
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(mst_mcts_gather(&h.search, 1, &budget, 2, 2, nullptr, nullptr, &count), MST_MCTS_OK);
    if (count == 0) {
      continue;  // every descent ended in a finished game
    }
    std::vector<float> values(2 * count, 0.0F);
    std::vector<float> priors(2 * count, 1.0F);
    EXPECT_EQ(mst_mcts_scatter(&h.search, 1, count + 1, values.data(), priors.data()),
              MST_MCTS_USAGE);
    EXPECT_EQ(mst_mcts_scatter(&h.search, 1, count, nullptr, nullptr), MST_MCTS_USAGE);
    values.back() = NAN;
    EXPECT_EQ(mst_mcts_scatter(&h.search, 1, count, values.data(), priors.data()),
              MST_MCTS_EVALUATOR);
    values.back() = 0;
    priors[0] = priors[1] = -1;
    EXPECT_EQ(mst_mcts_scatter(&h.search, 1, count, values.data(), priors.data()),
              MST_MCTS_EVALUATOR);
    priors[0] = priors[1] = 1;
    EXPECT_EQ(mst_mcts_scatter(&h.search, 1, count, values.data(), priors.data()), MST_MCTS_OK)
        << mst_mcts_last_error();
  }
}

}  // namespace
}  // namespace mstrain::mcts
