// A game of mcts/ as a network learns it: positions as planes, results as one number for the player to move.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "mcts/play/playable.h"

namespace mstrain::alphazero {

using mcts::Action;
using mcts::AnyGame;
using Results = mcts::Returns<AnyGame::kPlayers>;

// Thread-safe: nothing changes after construction.
class BoardGame {
 public:
  // Throws ConfigError, beginning with `key`, for a name that mcts/ does not know, and for games with hidden cards, chance,
  // rewards on the way or more than two players.
  BoardGame(const std::string& name, const std::string& key);

  const std::string& name() const { return name_; }
  const mcts::play::Playable& playable() const { return *playable_; }
  const AnyGame& start() const { return start_; }
  int64_t actions() const { return start_.max_actions(); }  // every action is below it

  // What a network sees: [planes, rows, columns]. The game's own planes as the player to move has them and, of two players,
  // one that is all ones where the second is to move.
  int64_t planes() const { return shape_[0] + (start_.players() > 1 ? 1 : 0); }
  int64_t rows() const { return shape_[1]; }
  int64_t columns() const { return shape_[2]; }
  int64_t input_size() const { return planes() * rows() * columns(); }
  void encode(const AnyGame& state, std::span<float> out) const;

  // A result of `player` within [-1, 1], and the results of all players that it stands for.
  float value_of(const Results& results, int player) const;
  Results results_of(float value, int player) const;

 private:
  std::string name_;
  std::unique_ptr<mcts::play::Playable> playable_;
  AnyGame start_;
  std::array<int, 3> shape_;
};

}  // namespace mstrain::alphazero
