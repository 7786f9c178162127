// The configuration of an AlphaZero run.
#pragma once

#include <string>

#include "core/runtime/context.h"
#include "core/train/sections.h"

namespace mstrain::alphazero {

// The section `network`.
struct NetworkConfig {
  enum class Type { kResidual, kMlp, kTransformer };
  Type type = Type::kResidual;
  int64_t blocks = 4;
  int64_t width = 64;
  int64_t heads = 4;
  int64_t head_width = 64;

  bool operator==(const NetworkConfig&) const = default;

  template <class V>
  void fields(V& v) {
    v("type", type,
      "residual: convolutions of the board; mlp: of all its numbers at once; transformer: a token "
      "for each cell",
      rule::one_of({"residual", "mlp", "transformer"}));
    v("blocks", blocks, "residual blocks, hidden layers or transformer blocks",
      rule::at_least(1).at_most(1000));
    v("width", width, "channels of a cell, or numbers of a hidden layer",
      rule::at_least(1).at_most(65536));
    v("heads", heads, "transformer: of the attention; they divide width", rule::at_least(1));
    v("head_width", head_width, "numbers of the hidden layer in front of the value",
      rule::at_least(1).at_most(65536));
  }
};

enum class SearchKind { kPuct, kGumbel };
const char* policy_of(SearchKind kind);  // as mcts/ calls it

// The section `algorithm`.
struct AlgorithmConfig {
  std::string type = "alphazero";
  SearchKind search = SearchKind::kPuct;
  int64_t simulations = 100;
  double puct_c = 1.25;
  double noise_fraction = 0.25;
  double noise_alpha = 0;
  int64_t gumbel_considered = 16;
  int64_t temperature_moves = 10;
  int64_t random_moves = 0;
  int64_t games = 128;
  int64_t parallel_games = 64;
  int64_t steps = 100;
  int64_t window = 50000;
  bool symmetries = true;
  double value_weight = 1;
  double search_value = 0;
  double discount = 1;
  NoneOr<double> resign;
  double false_resignations = 0.05;
  double played_out = 0.1;
  int64_t cache = 200000;
  AutoOr<int64_t> threads;

  template <class V>
  void fields(V& v) {
    v("type", type, "what the run does", rule::one_of({"alphazero"}));
    v("search", search,
      "puct: visits are what the policy learns; gumbel: the improved policy is, which needs few "
      "simulations",
      rule::one_of({"puct", "gumbel"}));
    v("simulations", simulations, "of a move of self-play", rule::at_least(2).at_most(1e6));
    v("puct_c", puct_c, "exploration of PUCT", rule::at_least(0));
    v("noise_fraction", noise_fraction, "puct: of Dirichlet noise in the root's priors",
      rule::at_least(0).at_most(1));
    v("noise_alpha", noise_alpha, "puct: of that noise; 0: 10 / number of actions",
      rule::at_least(0));
    v("gumbel_considered", gumbel_considered,
      "gumbel: root actions that sequential halving begins with", rule::at_least(1));
    v("temperature_moves", temperature_moves,
      "puct: so many first moves of a game are drawn by their visits", rule::at_least(0));
    v("random_moves", random_moves,
      "games of self-play begin behind up to so many moves by chance, from which nothing is "
      "learned: "
      "what play that is sure of itself no longer reaches is still seen",
      rule::at_least(0).at_most(10000));
    v("games", games, "of self-play in an iteration", rule::at_least(1).at_most(1e6));
    v("parallel_games", parallel_games,
      "of these, at once, on all ranks: the positions of a rank's share batches",
      rule::at_least(1).at_most(65536));
    v("steps", steps, "of training in an iteration; schedule.total_steps ends the run",
      rule::at_least(1));
    v("window", window, "positions of the newest games that steps draw from", rule::at_least(1));
    v("symmetries", symmetries,
      "positions are turned and mirrored by chance, where the game allows");
    v("value_weight", value_weight, "of the value's squared error in the loss", rule::at_least(0));
    v("search_value", search_value,
      "share of the search's own value in what the value learns, beside the game's result",
      rule::at_least(0).at_most(1));
    v("discount", discount,
      "of a result for each move until it comes: below 1, of two ways to win the shorter one is "
      "better",
      rule::above(0).at_most(1));
    v("resign", resign,
      "whoever's searches say less than this, as -0.9, for three moves of its own gives the game "
      "up; "
      "none: games are played to their end",
      rule::above(-1).below(0));
    v("false_resignations", false_resignations,
      "resign: where more of those who would have given up did not lose, among games that are "
      "played out, it takes less hope to give up, until they are fewer",
      rule::at_least(0).below(1));
    v("played_out", played_out,
      "resign: share of the games that are played to their end all the same",
      rule::above(0).at_most(1).elsewhere_called({"resign_playthrough"}));
    v("cache", cache, "positions whose evaluations are kept during an iteration; 0: none",
      rule::at_least(0).at_most(1e9));
    v("threads", threads,
      "that play; auto: all processors. Games are the same for any number; steps have run.threads",
      rule::at_least(1).at_most(1024));
  }

  int play_threads() const {
    return Context{.threads = static_cast<int>(threads.value_or(0))}.num_threads();
  }
};

// The section `evaluation`: matches of the network as training goes.
struct MatchConfig {
  NoneOr<int64_t> interval = 5;
  int64_t games = 40;
  int64_t simulations = 50;
  SearchKind search = SearchKind::kPuct;
  int64_t uct = 200;

  template <class V>
  void fields(V& v) {
    v("interval", interval, "iterations between two matches, with one at the end; none: no matches",
      rule::at_least(1));
    v("games", games, "of each match, half of them with either colour; even",
      rule::at_least(2).at_most(1e6));
    v("simulations", simulations, "of a move of the network", rule::at_least(2).at_most(1e6));
    v("search", search,
      "how the network searches there, in arena and in play: puct, which proves results, or gumbel",
      rule::one_of({"puct", "gumbel"}));
    v("uct", uct, "simulations of the opponent with random games", rule::at_least(2).at_most(1e8));
  }
};

struct Config {
  TrainConfig train;
  AlgorithmConfig algorithm;
  std::string game = "connect_four";
  NetworkConfig network;
  MatchConfig evaluation;

  Config();

  template <class V>
  void fields(V& v) {
    v("run", train.run, "the run itself");
    v("algorithm", algorithm, "how games are played and learned from");
    v("game", game, "a game of mcts/: mcts_play --list names them");
    v("network", network, "policy and value of a position");
    v("batch", train.batch, "how many positions make a step");
    v("parallel", train.parallel, "how many ranks share games and batches");
    v("memory", train.memory, "what the run may take");
    v("precision", train.precision, "in which types it is computed and stored");
    v("optimizer", train.optimizer, "update rule");
    v("schedule", train.schedule, "learning rate and length");
    v("fusion", train.fusion, "how far programs are optimised");
    v("checkpoint", train.checkpoint, "saving and going on");
    v("evaluation", evaluation, "matches while training");
    v("log", train.log, "what is written down");
    v("profile", train.profile, "where the time of a step goes");
  }
};

// Throws ConfigError with file and line.
Config read_alphazero(const YamlNode& tree);

}  // namespace mstrain::alphazero
