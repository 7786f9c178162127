#include "mcts/c_api/shipped_games.h"

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "mcts/evaluators.h"
#include "mcts/games/connect_four.h"
#include "mcts/games/game_2048.h"
#include "mcts/games/go.h"
#include "mcts/games/gomoku.h"
#include "mcts/games/hex.h"
#include "mcts/games/kuhn_poker.h"
#include "mcts/games/leduc_poker.h"
#include "mcts/games/othello.h"
#include "mcts/games/peg_solitaire.h"
#include "mcts/games/racetrack.h"
#include "mcts/games/tic_tac_toe.h"

namespace mstrain::mcts {
namespace {

template <class S>
const S& as(const void* state) {
  return *static_cast<const S*>(state);
}

// Nothing thrown leaves a callback.
template <class F>
int guarded(F f) {
  try {
    f();
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

template <class S>
int list_chance(void* /*context*/, const void* state, uint32_t* actions, float* probabilities,
                uint32_t* count) {
  return guarded([&] {
    if constexpr (HasChance<S>) {
      thread_local ChanceBuffer outcomes;
      outcomes.clear();
      as<S>(state).chance(outcomes);
      *count = static_cast<uint32_t>(outcomes.size());
      for (uint32_t i = 0; i < *count; ++i) {
        actions[i] = outcomes[i].action;
        probabilities[i] = outcomes[i].probability;
      }
    }
  });
}

template <class S>
int pay_rewards(void* /*context*/, const void* state, float* out) {
  return guarded([&] {
    if constexpr (HasRewards<S>) {
      const auto values = as<S>(state).rewards();
      std::copy(values.begin(), values.end(), out);
    }
  });
}

template <class S>
int take_back(void* /*context*/, void* state, uint32_t action) {
  return guarded([&] {
    if constexpr (HasUndo<S>) {
      static_cast<S*>(state)->undo(action);
    }
  });
}

template <class S>
int draw_hidden(void* /*context*/, void* state, int player, uint64_t seed) {
  return guarded([&] {
    if constexpr (HasInformation<S>) {
      Random rng(seed);
      static_cast<S*>(state)->determinize(player, rng);
    }
  });
}

template <class S>
uint64_t key_of(void* /*context*/, const void* state, int player) {
  if constexpr (HasInformation<S>) {
    return as<S>(state).information_key(player);
  } else {
    return 0;
  }
}

template <class S>
uint64_t hash_of(void* /*context*/, const void* state) {
  return as<S>(state).hash();
}

template <class S>
mst_mcts_game table() {
  // Go copies only the boards of its history that were played, which is all that keeps memcpy from being what it does.
  static_assert(std::is_trivially_destructible_v<S>);
  return {
      .abi_version = MST_MCTS_ABI_VERSION,
      .players = S::kPlayers,
      .state_size = sizeof(S),
      .max_actions = S::kMaxActions,
      .observation_size = S::kObservationSize,
      .context = nullptr,
      .player = [](void*, const void* state) { return as<S>(state).player(); },
      .legal =
          [](void*, const void* state, uint32_t* out, uint32_t* count) {
            return guarded([&] {
              thread_local ActionBuffer actions;
              actions.clear();
              as<S>(state).legal(actions);
              std::copy(actions.begin(), actions.end(), out);
              *count = static_cast<uint32_t>(actions.size());
            });
          },
      .apply =
          [](void*, void* state, uint32_t action) {
            return guarded([&] { static_cast<S*>(state)->apply(action); });
          },
      .returns =
          [](void*, const void* state, float* out) {
            return guarded([&] {
              const auto values = as<S>(state).returns();
              std::copy(values.begin(), values.end(), out);
            });
          },
      .chance = HasChance<S> ? list_chance<S> : nullptr,
      .rewards = HasRewards<S> ? pay_rewards<S> : nullptr,
      .rollout =
          [](void*, const void* state, uint64_t seed, float* out) {
            return guarded([&] {
              Random rng(seed);
              const auto values = random_rollout(as<S>(state), rng);
              std::copy(values.begin(), values.end(), out);
            });
          },
      .observe =
          [](void*, const void* state, int player, float* out) {
            return guarded([&] {
              check(player >= 0 && player < S::kPlayers, "game: observe of player {}", player);
              as<S>(state).observe(player, {out, static_cast<size_t>(S::kObservationSize)});
            });
          },
      .min_return = min_return<S>(),
      .max_return = max_return<S>(),
      .zero_sum = S::kPlayers == 2 && is_zero_sum<S>() ? 1 : 0,
      .hash = has_history<S>() ? nullptr : hash_of<S>,
      .undo = prefers_undo<S>() ? take_back<S> : nullptr,
      .determinize = HasInformation<S> ? draw_hidden<S> : nullptr,
      .information_key = HasInformation<S> ? key_of<S> : nullptr,
  };
}

struct Shipped {
  std::string_view name;
  mst_mcts_game table;
  void (*begin)(void* state);
};

template <class S>
Shipped shipped() {
  return {S::kName, table<S>(), [](void* state) { new (state) S(); }};
}

const std::vector<Shipped>& all() {
  static const std::vector<Shipped> kAll = {
      shipped<TicTacToe>(),    shipped<ConnectFour>(), shipped<Othello<8>>(), shipped<Othello<6>>(),
      shipped<Othello<4>>(),   shipped<Gomoku<15>>(),  shipped<Gomoku<7>>(),  shipped<Go<9>>(),
      shipped<Go<7>>(),        shipped<Go<5>>(),       shipped<Hex<11>>(),    shipped<Hex<7>>(),
      shipped<Hex<5>>(),       shipped<Game2048>(),    shipped<KuhnPoker>(),  shipped<LeducPoker>(),
      shipped<PegSolitaire>(), shipped<Racetrack>(),
  };
  return kAll;
}

}  // namespace

const char* shipped_name(uint32_t number) {
  return number < all().size() ? all()[number].name.data() : nullptr;
}

const mst_mcts_game* shipped_game(std::string_view name) {
  for (const Shipped& each : all()) {
    if (each.name == name) {
      return &each.table;
    }
  }
  return nullptr;
}

bool write_initial_state(const mst_mcts_game& game, void* state) {
  for (const Shipped& each : all()) {
    if (&each.table == &game) {
      std::memset(state, 0, game.state_size);  // padding too: equal states are equal bytes
      each.begin(state);
      return true;
    }
  }
  return false;
}

}  // namespace mstrain::mcts
