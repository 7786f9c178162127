// What mcts_play does with a game.
#pragma once

#include <string>

#include "mcts/play/engine.h"

namespace mstrain::mcts::play {

class Program {
 public:
  // `evaluator`: of every leaf, as for Engine. Throws ConfigError that names the nearest game.
  explicit Program(const std::string& game, AnyEvaluator<AnyGame>* evaluator = nullptr)
      : game_(game), evaluator_(evaluator) {}

  // Searches options.position. `picture`, where given, gets the most visited part of the tree.
  Analysis analyze(const Options& options, Picture* picture) const;
  SelfPlay self_play(const Options& options) const;
  Bench bench(const Options& options) const;
  // A game at the terminal; returns when it is over or the user leaves.
  void play(const Options& options) const;

 private:
  AnyGame read_position(const std::string& text) const;
  AnyGame decision_from(const Options& options) const;
  SelfPlay start_of(const Options& options) const;
  SelfPlay self_play_batched(const Options& options, const AnyGame& root) const;
  void count(SelfPlay& out, const Returns<AnyGame::kPlayers>& total, int64_t plies) const;
  std::string result_text(const Returns<AnyGame::kPlayers>& total) const;

  // One action of a person: nothing where the game is left. "hint", "moves", "undo" and "help" are answered on the way.
  enum class Said { kAction, kUndo, kQuit };
  Said ask_person(const AnyGame& state, const Options& options, Action& action) const;

  Engine engine(const Options& options, uint64_t seed, int64_t simulations) const {
    return Engine(game_, options, seed, simulations, evaluator_);
  }

  Game game_;
  AnyEvaluator<AnyGame>* evaluator_;
};

}  // namespace mstrain::mcts::play
