// What mcts_play does with one game; game_program.h makes it from a game type.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "mcts/play/options.h"
#include "mcts/play/report.h"
#include "mcts/play/tree_picture.h"

namespace mstrain::mcts::play {

class Program {
 public:
  virtual ~Program() = default;
  // Searches options.position. `picture`, where given, gets the most visited part of the tree.
  virtual Analysis analyze(const Options& options, Picture* picture) = 0;
  virtual SelfPlay self_play(const Options& options) = 0;
  virtual Bench bench(const Options& options) = 0;
  // A game at the terminal; returns when it is over or the user leaves.
  virtual void play(const Options& options) = 0;
};

struct GameEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Program> (*make)();
};

std::span<const GameEntry> all_games();

// Throws ConfigError that names the nearest game and lists them all.
const GameEntry& find_game(std::string_view name);

template <class S>
std::unique_ptr<Program> make_program();  // instantiated in games_*.cc

}  // namespace mstrain::mcts::play
