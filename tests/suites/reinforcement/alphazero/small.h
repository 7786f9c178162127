// What the tests share: a small network for tic-tac-toe, and players that need none.
#pragma once

#include <atomic>
#include <string>

#include "suites/reinforcement/alphazero/match.h"
#include "suites/reinforcement/alphazero/self_play.h"

namespace mstrain::alphazero {

inline const std::atomic<bool> kGoOn = false;

inline Config small_config(const std::string& game = "tic_tac_toe") {
  Config config;
  config.game = game;
  config.network = {.type = NetworkConfig::Type::kMlp, .blocks = 1, .width = 32, .head_width = 16};
  config.algorithm.simulations = 16;
  config.algorithm.games = 12;
  config.algorithm.parallel_games = 8;
  return config;
}

inline Params first_params(const Config& config, const BoardGame& game, uint64_t seed) {
  return init_params(PolicyValueNetwork(config.network, game).specs(), seed);
}

// Any legal action.
class RandomContestant final : public Contestant {
 public:
  std::string name() const override { return "random"; }
  std::vector<Action> choose(std::span<const AnyGame> states,
                             std::span<const uint64_t> seeds) override {
    std::vector<Action> out;
    for (size_t i = 0; i < states.size(); ++i) {
      mcts::ActionBuffer legal;
      states[i].legal(legal);
      mcts::Random rng(seeds[i]);
      out.push_back(legal[rng.below(static_cast<uint32_t>(legal.size()))]);
    }
    return out;
  }
};

// In how many positions at the end `who`, playing `player`, has lost, whatever the other one does. The start is `state`.
inline int64_t lost_lines(const BoardGame& game, Contestant& who, int player,
                          const AnyGame& start) {
  std::vector<AnyGame> states{start};
  int64_t lost = 0;
  while (!states.empty()) {
    std::vector<AnyGame> mine, next;
    std::vector<uint64_t> seeds;
    for (AnyGame& state : states) {
      if (state.player() == mcts::kTerminal) {
        lost += game.value_of(state.returns(), player) < 0 ? 1 : 0;
      } else if (state.player() == player) {
        seeds.push_back(seeds.size());
        mine.push_back(std::move(state));
      } else {
        mcts::ActionBuffer legal;
        state.legal(legal);
        for (const Action action : legal) {
          next.push_back(state);
          next.back().apply(action);
        }
      }
    }
    const std::vector<Action> actions = who.choose(mine, seeds);
    for (size_t i = 0; i < mine.size(); ++i) {
      mine[i].apply(actions[i]);
      next.push_back(std::move(mine[i]));
    }
    states = std::move(next);
  }
  return lost;
}

}  // namespace mstrain::alphazero
