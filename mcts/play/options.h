// The command line of mcts_play.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mcts/search/config.h"

namespace mstrain::mcts::play {

enum class Task { kPlay, kAnalyze, kSelfPlay, kBench, kHelp, kVersion, kList };

struct Options {
  Task task = Task::kPlay;
  std::string game;
  std::string position;     // to analyse, or to begin at
  int64_t simulations = 0;  // of a move; 0: 100000 for --bench, else 10000 unless a time is given
  int64_t opponent_simulations = 0;  // self-play: of the second player; 0: the same
  double milliseconds = 0;           // of a move; 0: not limited
  int64_t games = 0;                 // of self-play
  int rollouts = 1;
  bool json = false;
  std::string tree_file;  // .svg or .dot
  int64_t tree_nodes = 40;
  std::string human = "first";
  std::string policy = "uct";  // of the search registry
  SearchConfig search;         // uct_c 2, one thread, solver off

  Budget budget(int64_t simulations_of_player) const;
};

// What --config FILE may say; the command line wins over it.
struct ConfigFile {
  std::string game;
  std::string policy = "uct";
  int64_t simulations = 0;
  double milliseconds = 0;
  int64_t rollouts = 1;
  SearchConfig search;

  template <class V>
  void fields(V& v) {
    v("game", game, "the game");
    v("policy", policy, "how nodes are chosen",
      rule::one_of({"uct", "uct_tuned", "puct", "gumbel", "rave", "epsilon_greedy", "wu_uct",
                    "widening", "graph", "open_loop"}));
    v("simulations", simulations, "of a move; 0: 10000, or as many as the time allows",
      rule::at_least(0).at_most(1e9));
    v("milliseconds", milliseconds, "of a move; 0: not limited", rule::at_least(0).at_most(1e9));
    v("rollouts", rollouts, "random games for each leaf", rule::at_least(1).at_most(1e6));
    v("search", search, "the search itself");
  }
};

// Throws ConfigError that names the option, what was expected and the nearest valid choice.
Options parse_options(std::span<const std::string> arguments);

std::string help_text();

}  // namespace mstrain::mcts::play
