#include "mcts/c_api/mstrain_mcts.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <unordered_set>

#include "core/base/version.h"
#include "core/base/yaml.h"
#include "mcts/c_api/abi_search.h"
#include "mcts/c_api/shipped_games.h"
#include "mcts/search/muzero.h"

using mstrain::check;
using mstrain::Error;

struct mst_mcts_search {
  mstrain::mcts::AbiSearch search;
};

struct mst_mcts_muzero {
  explicit mst_mcts_muzero(const mstrain::mcts::MuZeroConfig& c) : config(c), search(c) {}
  size_t roots() const { return static_cast<size_t>(config.roots); }
  size_t row() const { return roots() * static_cast<size_t>(config.actions); }
  size_t answer() const { return roots() * static_cast<size_t>(config.width()); }
  // Empty where actions are not sampled.
  std::span<const float> sampled(const float* from) const {
    const size_t size = row() * static_cast<size_t>(config.action_size);
    check(size == 0 || from != nullptr, "sampled is null");
    return {size == 0 ? nullptr : from, size};
  }
  mstrain::mcts::MuZeroConfig config;
  mstrain::mcts::MuZeroSearch search;
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

mstrain::mcts::AbiSearch& inside(mst_mcts_search* search) {
  check_pointer(search, "search");
  return search->search;
}
const mstrain::mcts::AbiSearch& inside(const mst_mcts_search* search) {
  check_pointer(search, "search");
  return search->search;
}

mstrain::mcts::Budget budget_of(const mst_mcts_budget* budget) {
  check_pointer(budget, "budget");
  mstrain::mcts::Budget out{.simulations = budget->simulations, .stable = budget->stable};
  check(budget->milliseconds >= 0,
        "budget: milliseconds: expected 0, for no limit, or more; found {}", budget->milliseconds);
  constexpr double kForEver = 1e12;
  if (budget->milliseconds > 0 && budget->milliseconds < kForEver) {
    out.time = mstrain::mcts::Budget::milliseconds(budget->milliseconds).time;
  }
  return out;
}

void check_game(const mst_mcts_game* game) {
  check_pointer(game, "game");
  check(game->abi_version == MST_MCTS_ABI_VERSION, "game: abi_version is {}; this library has {}",
        game->abi_version, MST_MCTS_ABI_VERSION);
  check(game->players >= 1 && game->players <= 8, "game: {} players; 1 to 8 are possible",
        game->players);
  constexpr uint32_t kMostActions = 1 << 24;
  check(game->state_size >= 1, "game: state_size is 0; expected 1 or more");
  check(game->max_actions >= 1 && game->max_actions <= kMostActions,
        "game: max_actions is {}; expected 1 to {}", game->max_actions, kMostActions);
  check(game->player && game->legal && game->apply && game->returns,
        "game: player, legal, apply and returns must be given");
  check(game->min_return <= game->max_return, "game: min_return {} lies above max_return {}",
        game->min_return, game->max_return);
  check(game->zero_sum == 0 || game->players == 2, "game: zero_sum is for two players");
  check((game->determinize == nullptr) == (game->information_key == nullptr),
        "game: determinize and information_key go together");
  check(game->observation_size == 0 || game->observe != nullptr,
        "game: observation_size without observe");
}

template <class Config>
Config parse(const char* text) {
  Config config;
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

const char* mst_mcts_game_name(uint32_t number) { return mstrain::mcts::shipped_name(number); }

int mst_mcts_find_game(const char* name, const mst_mcts_game** game) {
  return call([&] {
    check_pointer(name, "name");
    check_pointer(game, "game");
    *game = mstrain::mcts::shipped_game(name);
    std::vector<std::string> names;
    for (uint32_t i = 0; mst_mcts_game_name(i) != nullptr; ++i) {
      names.emplace_back(mst_mcts_game_name(i));
    }
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
    check_pointer(policy, "policy");
    check_pointer(search, "search");
    check_game(game);
    *search = new mst_mcts_search{
        mstrain::mcts::AbiSearch(*game, policy, parse<mstrain::mcts::SearchConfig>(config))};
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
  return call([&] { inside(search).run(budget_of(budget), evaluate, context, with_priors != 0); });
}

int mst_mcts_gather(mst_mcts_search* const* searches, uint32_t search_count,
                    const mst_mcts_budget* budget, uint32_t max_leaves, uint32_t capacity,
                    const void** states, float* observations, uint32_t* counts) {
  return call([&] {
    const mstrain::mcts::Budget each = budget_of(budget);
    check_pointer(searches, "searches");
    check_pointer(counts, "counts");
    check(uint64_t{search_count} * max_leaves <= capacity,
          "gather: {} searches with {} leaves each need a capacity of {}; it is {}", search_count,
          max_leaves, uint64_t{search_count} * max_leaves, capacity);
    std::unordered_set<const mst_mcts_search*> listed;
    for (uint32_t i = 0; i < search_count; ++i) {
      const mst_mcts_game& one = inside(searches[0]).table();
      const mst_mcts_game& other = inside(searches[i]).table();
      check(one.players == other.players && one.max_actions == other.max_actions &&
                one.observation_size == other.observation_size,
            "gather: search {} is of another game than search 0", i);
      check(listed.insert(searches[i]).second, "gather: search {} is listed twice", i);
      check(inside(searches[i]).gathered() == 0,
            "gather: search {} waits for the answers to its last batch; scatter them first", i);
      check(inside(searches[i]).has_root(), "gather: search {} has no root; call set_root() first",
            i);
    }
    uint32_t total = 0;
    for (uint32_t i = 0; i < search_count; ++i) {
      auto& search = inside(searches[i]);
      counts[i] = search.gather(
          each, max_leaves, states == nullptr ? nullptr : states + total,
          observations == nullptr ? nullptr
                                  : observations + size_t{total} * search.table().observation_size);
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
      values += size_t{count} * search.table().players;
      priors = priors == nullptr ? nullptr : priors + size_t{count} * search.table().max_actions;
    }
  });
}

int mst_mcts_result(const mst_mcts_search* search, mst_mcts_summary* summary) {
  return call([&] {
    check_pointer(summary, "summary");
    const auto r = inside(search).result();
    *summary = {.best_action = r.action ? static_cast<int64_t>(*r.action) : -1,
                .value = r.value,
                .proven = r.proven ? 1 : 0,
                .edges = static_cast<uint32_t>(r.edges.size()),
                .simulations = r.counters.simulations,
                .evaluations = r.counters.evaluations,
                .collisions = r.counters.collisions,
                .nodes = r.nodes,
                .tree_bytes = r.tree_bytes,
                .seconds = r.counters.seconds};
  });
}

int mst_mcts_edges(const mst_mcts_search* search, mst_mcts_edge* edges, uint32_t capacity,
                   uint32_t* count) {
  return call([&] {
    check_pointer(count, "count");
    const auto all = inside(search).result().edges;
    *count = static_cast<uint32_t>(all.size());
    check(edges != nullptr || capacity == 0, "edges is null");
    for (size_t i = 0; i < std::min<size_t>(all.size(), capacity); ++i) {
      const auto& e = all[i];
      edges[i] = {e.action, e.proven ? 1 : 0, e.visits, e.value, e.prior, e.weight};
    }
  });
}

int mst_mcts_principal_variation(const mst_mcts_search* search, uint32_t* actions,
                                 uint32_t capacity, uint32_t* count) {
  return call([&] {
    check_pointer(count, "count");
    const auto line = inside(search).result().principal_variation;
    *count = static_cast<uint32_t>(line.size());
    check(actions != nullptr || capacity == 0, "actions is null");
    std::copy_n(line.begin(), std::min<size_t>(line.size(), capacity), actions);
  });
}

int mst_mcts_muzero_create(const char* config, mst_mcts_muzero** search) {
  return call([&] {
    check_pointer(search, "search");
    *search = new mst_mcts_muzero(parse<mstrain::mcts::MuZeroConfig>(config));
  });
}

void mst_mcts_muzero_destroy(mst_mcts_muzero* search) { delete search; }

int mst_mcts_muzero_set_roots(mst_mcts_muzero* search, const float* logits, const float* values,
                              const float* sampled) {
  return call([&] {
    check_pointer(search, "search");
    check_pointer(logits, "logits");
    check_pointer(values, "values");
    search->search.set_roots({logits, search->row()}, {values, search->roots()},
                             search->sampled(sampled));
  });
}

int mst_mcts_muzero_gather(mst_mcts_muzero* search, uint32_t* nodes, uint32_t* actions,
                           float* vectors) {
  return call([&] {
    check_pointer(search, "search");
    check_pointer(nodes, "nodes");
    check_pointer(actions, "actions");
    const size_t size = search->roots() * static_cast<size_t>(search->config.action_size);
    check(size == 0 || vectors != nullptr, "vectors is null");
    search->search.gather({nodes, search->roots()}, {actions, search->roots()},
                          {size == 0 ? nullptr : vectors, size});
  });
}

int mst_mcts_muzero_scatter(mst_mcts_muzero* search, const float* rewards, const float* values,
                            const float* logits, const float* sampled) {
  return call([&] {
    check_pointer(search, "search");
    check_pointer(rewards, "rewards");
    check_pointer(values, "values");
    check_pointer(logits, "logits");
    search->search.scatter({rewards, search->roots()}, {values, search->roots()},
                           {logits, search->answer()}, search->sampled(sampled));
  });
}

int mst_mcts_muzero_result(const mst_mcts_muzero* search, uint32_t* visits, float* policy,
                           float* values, uint32_t* best_actions) {
  return call([&] {
    check_pointer(search, "search");
    for (int64_t i = 0; i < search->config.roots; ++i) {
      const auto row = static_cast<ptrdiff_t>(i * search->config.actions);
      if (visits != nullptr) {
        const auto from = search->search.visits(i);
        std::copy(from.begin(), from.end(), visits + row);
      }
      if (policy != nullptr) {
        const auto from = search->search.policy(i);
        std::copy(from.begin(), from.end(), policy + row);
      }
      if (values != nullptr) {
        values[i] = search->search.value(i);
      }
      if (best_actions != nullptr) {
        best_actions[i] = search->search.best_action(i);
      }
    }
  });
}

}  // extern "C"
