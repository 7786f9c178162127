#include "mcts/c_api/shipped_games.h"

#include <cstring>
#include <exception>
#include <string>

#include "mcts/evaluators.h"
#include "mcts/games/connect_four.h"
#include "mcts/games/othello.h"
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
mst_mcts_game table() {
  static_assert(std::is_trivially_copyable_v<S>);
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
              as<S>(state).observe(player, {out, static_cast<size_t>(S::kObservationSize)});
            });
          },
  };
}

const mst_mcts_game kTicTacToe = table<TicTacToe>();
const mst_mcts_game kConnectFour = table<ConnectFour>();
const mst_mcts_game kOthello = table<Othello<8>>();

}  // namespace

const mst_mcts_game* shipped_game(std::string_view name) {
  return name == TicTacToe::kName     ? &kTicTacToe
         : name == ConnectFour::kName ? &kConnectFour
         : name == Othello<8>::kName  ? &kOthello
                                      : nullptr;
}

bool write_initial_state(const mst_mcts_game& game, void* state) {
  const auto write = [&](const auto& first) { std::memcpy(state, &first, sizeof first); };
  if (&game == &kTicTacToe) {
    write(TicTacToe{});
  } else if (&game == &kConnectFour) {
    write(ConnectFour{});
  } else if (&game == &kOthello) {
    write(Othello<8>{});
  } else {
    return false;
  }
  return true;
}

}  // namespace mstrain::mcts
