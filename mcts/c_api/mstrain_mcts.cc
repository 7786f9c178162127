#include "mcts/c_api/mstrain_mcts.h"

#include <new>
#include <numeric>
#include <string>

#include "core/base/version.h"
#include "core/base/yaml.h"
#include "mcts/c_api/abi_game.h"
#include "mcts/c_api/shipped_games.h"

using mstrain::check;
using mstrain::Error;

struct mst_mcts_search {
  std::unique_ptr<mstrain::mcts::AbiSearch> search;
};

namespace {

thread_local std::string last_error;

// Runs `body`; what it throws becomes a code and a message.
template <class Body>
int call(Body body) noexcept {
  try {
    last_error.clear();
    body();
    return MST_MCTS_OK;
  } catch (const mstrain::mcts::GameError& e) {
    last_error = e.what();
    return MST_MCTS_GAME;
  } catch (const mstrain::mcts::EvaluatorError& e) {
    last_error = e.what();
    return MST_MCTS_EVALUATOR;
  } catch (const Error& e) {
    last_error = e.what();
    // The search's own checks of games and evaluators begin with these words.
    return last_error.rfind("game:", 0) == 0        ? MST_MCTS_GAME
           : last_error.rfind("evaluator:", 0) == 0 ? MST_MCTS_EVALUATOR
                                                    : MST_MCTS_USAGE;
  } catch (const std::bad_alloc&) {
    return MST_MCTS_MEMORY;
  } catch (const std::exception& e) {
    last_error = e.what();
    return MST_MCTS_INTERNAL;
  } catch (...) {
    return MST_MCTS_INTERNAL;
  }
}

void check_pointer(const void* pointer, const char* name) {
  check(pointer != nullptr, "{} is null", name);
}

mstrain::mcts::AbiSearch& inside(const mst_mcts_search* search) {
  check_pointer(search, "search");
  return *search->search;
}

void check_game(const mst_mcts_game* game) {
  check_pointer(game, "game");
  check(game->abi_version == MST_MCTS_ABI_VERSION, "game: abi_version is {}; this library has {}",
        game->abi_version, MST_MCTS_ABI_VERSION);
  check(game->players >= 1 && game->players <= 8, "game: {} players; 1 to 8 are possible",
        game->players);
  check(game->state_size >= 1 && game->max_actions >= 1,
        "game: state_size {} and max_actions {} must be positive", game->state_size,
        game->max_actions);
  check(game->player && game->legal && game->apply && game->returns,
        "game: player, legal, apply and returns must be given");
  check(game->rewards == nullptr || game->players == 1, "game: rewards need a game for one player");
  check(game->observation_size == 0 || game->observe != nullptr,
        "game: observation_size without observe");
}

mstrain::mcts::SearchConfig parse(const char* text) {
  mstrain::mcts::SearchConfig config;
  if (text != nullptr && *text != 0) {
    mstrain::read_config(mstrain::parse_yaml(text, "config"), config);
  }
  return config;
}

}  // namespace

extern "C" {

uint32_t mst_mcts_abi_version(void) { return MST_MCTS_ABI_VERSION; }
const char* mst_mcts_version(void) { return mstrain::version().data(); }
const char* mst_mcts_last_error(void) { return last_error.c_str(); }

int mst_mcts_find_game(const char* name, const mst_mcts_game** game) {
  return call([&] {
    check_pointer(name, "name");
    check_pointer(game, "game");
    *game = mstrain::mcts::shipped_game(name);
    const std::vector<std::string> names{"tic_tac_toe", "connect_four", "othello"};
    check(*game != nullptr, "there is no game {}{}", name, mstrain::did_you_mean(name, names));
  });
}

int mst_mcts_initial_state(const mst_mcts_game* game, void* state) {
  return call([&] {
    check_pointer(game, "game");
    check_pointer(state, "state");
    check(mstrain::mcts::write_initial_state(*game, state),
          "only games of mst_mcts_find_game have a known first state");
  });
}

int mst_mcts_create(const mst_mcts_game* game, const char* policy, const char* config,
                    mst_mcts_search** search) {
  return call([&] {
    using namespace mstrain::mcts;  // NOLINT: kinds of games
    check_pointer(policy, "policy");
    check_pointer(search, "search");
    check_game(game);
    const mstrain::mcts::SearchConfig parsed = parse(config);
    const auto make = game->rewards != nullptr ? make_abi_search<AbiPaying>
                      : game->players == 1     ? make_abi_search<AbiPuzzle>
                      : game->players == 2     ? make_abi_search<AbiTwo>
                                               : make_abi_search<AbiMany>;
    *search = new mst_mcts_search{make(*game, policy, parsed)};
  });
}

void mst_mcts_destroy(mst_mcts_search* search) { delete search; }

int mst_mcts_set_root(mst_mcts_search* search, const void* state) {
  return call([&] {
    check_pointer(state, "state");
    inside(search).set_root(state);
  });
}

int mst_mcts_advance(mst_mcts_search* search, uint32_t action) {
  return call([&] { inside(search).advance(action); });
}

int mst_mcts_run(mst_mcts_search* search, const mst_mcts_budget* budget, mst_mcts_evaluate evaluate,
                 void* context, int with_priors) {
  return call([&] {
    check_pointer(budget, "budget");
    mstrain::mcts::Budget b{.simulations = budget->simulations, .stable = budget->stable};
    if (budget->milliseconds > 0) {
      b.time = mstrain::mcts::Budget::milliseconds(budget->milliseconds).time;
    }
    inside(search).run(b, evaluate, context, with_priors != 0);
  });
}

int mst_mcts_gather(mst_mcts_search* const* searches, uint32_t search_count, uint32_t max_leaves,
                    uint32_t capacity, const void** states, float* observations, uint32_t* counts) {
  return call([&] {
    check_pointer(searches, "searches");
    check_pointer(counts, "counts");
    check(uint64_t{search_count} * max_leaves <= capacity,
          "gather: {} searches with {} leaves each need a capacity of {}; it is {}", search_count,
          max_leaves, uint64_t{search_count} * max_leaves, capacity);
    uint32_t total = 0;
    for (uint32_t i = 0; i < search_count; ++i) {
      auto& search = inside(searches[i]);
      counts[i] = search.gather(max_leaves, states == nullptr ? nullptr : states + total,
                                observations == nullptr
                                    ? nullptr
                                    : observations + size_t{total} * search.game.observation_size);
      total += counts[i];
    }
  });
}

int mst_mcts_scatter(mst_mcts_search* const* searches, uint32_t search_count, uint32_t total,
                     const float* values, const float* priors) {
  return call([&] {
    check_pointer(searches, "searches");
    uint32_t expected = 0;
    for (uint32_t i = 0; i < search_count; ++i) {
      expected += inside(searches[i]).gathered();
    }
    check(total == expected, "scatter: answers for {} leaves; {} were gathered", total, expected);
    check(total == 0 || values != nullptr, "values is null");
    for (uint32_t i = 0; i < search_count; ++i) {
      auto& search = inside(searches[i]);
      const uint32_t count = search.gathered();
      search.scatter(values, priors);
      values += size_t{count} * search.game.players;
      priors = priors == nullptr ? nullptr : priors + size_t{count} * search.game.max_actions;
    }
  });
}

int mst_mcts_result(const mst_mcts_search* search, mst_mcts_summary* summary) {
  return call([&] {
    check_pointer(summary, "summary");
    *summary = inside(search).summary();
  });
}

int mst_mcts_edges(const mst_mcts_search* search, mst_mcts_edge* edges, uint32_t capacity,
                   uint32_t* count) {
  return call([&] {
    check_pointer(count, "count");
    const auto all = inside(search).edges();
    *count = static_cast<uint32_t>(all.size());
    check(edges != nullptr || capacity == 0, "edges is null");
    std::copy_n(all.begin(), std::min<size_t>(all.size(), capacity), edges);
  });
}

int mst_mcts_principal_variation(const mst_mcts_search* search, uint32_t* actions,
                                 uint32_t capacity, uint32_t* count) {
  return call([&] {
    check_pointer(count, "count");
    const auto line = inside(search).principal_variation();
    *count = static_cast<uint32_t>(line.size());
    check(actions != nullptr || capacity == 0, "actions is null");
    std::copy_n(line.begin(), std::min<size_t>(line.size(), capacity), actions);
  });
}

}  // extern "C"
