// Batched self-play: many games at once, one search tree each, evaluated in common batches; what AlphaZero learns from.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "mcts/search/batch_search.h"

namespace mstrain::mcts {

struct SelfPlayOptions {
  BatchOptions batch;
  int64_t games = 256;        // to be played in all
  int64_t first_game = 0;     // their numbers begin with it
  int64_t simulations = 100;  // for each move
  int64_t max_moves = 1 << 20;
  bool reuse = true;              // keep the subtree of the move played
  int64_t temperature_moves = 8;  // moves sampled from the visits; the best one afterwards
  // Of two players the one to move gives up where the values of its last `resign_moves` searches were below this share of what winning is
  // worth: -0.9, say. None: games are played to their end.
  std::optional<double> resign_below = {};
  int64_t resign_moves = 3;
  // A share of the games, by their numbers, that go on all the same: whoever would have given up is told.
  double played_out = 0.1;
};

// One move of one game.
template <class S>
struct PlayedMove {
  S state;  // before the move
  ActionOf<S> action;
  std::vector<RootEdge<ActionOf<S>>> edges;  // their weights are the target of a policy head
  double value = 0;                          // of the search, for the player to move
  ReturnsOf<S> rewards{};                    // paid by the action and by the chance that followed
};

template <class S>
struct PlayedGame {
  int64_t number = 0;
  std::vector<PlayedMove<S>> moves;
  ReturnsOf<S>
      returns{};  // the result: the sum of all rewards, discounted for each step, and the end's returns()
  bool finished = false;  // false: cut at max_moves
  // The first player who gave up, or would have in a game that is played out; -1: nobody.
  int gives_up = -1;
  bool given_up = false;  // and so the other one has won
};

// Plays options.games games, each from start(number), and gives each to `sink` (one call at a time) when it ends. Chance states
// are played by their probabilities. The games are the same for any number of threads, groups or trees of equal seeds where
// the evaluator's answer for a state does not depend on the rest of its batch.
template <class P = PuctPolicies, GameState S, Evaluator<S> E>
SearchCounters self_play(const SearchConfig& config, const SelfPlayOptions& options,
                         const std::function<S(int64_t)>& start, E& evaluator,
                         const std::function<void(PlayedGame<S>&&)>& sink, double* busy = nullptr) {
  check(options.games >= 1 && options.simulations >= 1 && options.max_moves >= 1,
        "self-play: {} games of at most {} moves with {} simulations each; at least 1 of each is "
        "needed",
        options.games, options.max_moves, options.simulations);
  const int64_t trees = std::min(options.batch.trees, options.games);
  BatchOptions batch = options.batch;
  batch.trees = trees;
  batch.groups = std::min(batch.groups, trees);
  BatchSearch<S, P> search(config, batch);
  struct Board {
    PlayedGame<S> game;
    Random rng;
    float weight = 1;  // what a reward of the next step counts
    // Searches in a row by which each player has little to hope for.
    std::array<int64_t, 2> hopeless{};
  };
  std::vector<Board> boards(static_cast<size_t>(trees));
  std::mutex mutex;

  // Game n is played on board n % trees, so which games share a board does not depend on which ends first.
  const auto earn = [&](int64_t i) {
    Board& board = boards[i];
    if constexpr (HasRewards<S>) {
      const ReturnsOf<S> paid = search.tree(i).root().rewards();
      for (int p = 0; p < S::kPlayers; ++p) {
        board.game.returns[p] += board.weight * paid[p];
        if (!board.game.moves.empty()) {
          board.game.moves.back().rewards[p] += paid[p];
        }
      }
    }
    board.weight *= static_cast<float>(config.discount);
  };
  const auto play_chance = [&](int64_t i) {
    ChanceBufferOf<S> outcomes;
    while (search.tree(i).root().player() == kChance) {
      search.advance(i, draw_chance(search.tree(i).root(), outcomes, boards[i].rng));
      earn(i);
    }
  };
  const auto begin_game = [&](int64_t i, int64_t number) {
    boards[i].game = {.number = number};
    boards[i].rng = Random(config.seed, ~static_cast<uint64_t>(number));
    boards[i].weight = 1;
    boards[i].hopeless = {};
    search.begin_game(i, static_cast<uint64_t>(number));
    search.set_root(i, start(number));
    const int players = players_of(search.tree(i).root());
    check(!options.resign_below || players <= 2,
          "self-play: resign_below needs a game of one or two players; this one has {}", players);
    play_chance(i);
  };
  const auto end_game = [&](int64_t i, bool finished) {
    Board& board = boards[i];
    board.game.finished = finished;
    if (finished && !board.game.given_up) {
      const ReturnsOf<S> last = search.tree(i).root().returns();
      for (int p = 0; p < S::kPlayers; ++p) {
        board.game.returns[p] += board.weight * last[p];
      }
    }
    const std::lock_guard lock(mutex);
    sink(std::move(board.game));
  };
  // Game `number`, or where that is over at once the next of its board that is not. False: none is left.
  const auto begin_games = [&](int64_t i, int64_t number) {
    for (; number < options.first_game + options.games; number += trees) {
      begin_game(i, number);
      if (search.tree(i).root().player() != kTerminal) {
        return true;
      }
      end_game(i, true);
    }
    return false;
  };
  for (int64_t i = 0; i < trees; ++i) {
    begin_games(i, options.first_game + i);
  }
  // Whether the player to move ends the game here, after a search that valued it so.
  const auto gives_up = [&](Board& board, const S& root, double value) {
    if (!options.resign_below || S::kPlayers < 2 || board.game.gives_up >= 0) {
      return false;
    }
    const int player = root.player();
    int64_t& hopeless = board.hopeless[static_cast<size_t>(player)];
    hopeless = value < *options.resign_below * max_return(root) ? hopeless + 1 : 0;
    if (hopeless < options.resign_moves) {
      return false;
    }
    board.game.gives_up = player;
    constexpr uint64_t kPlayedOut = 0x6f7574;  // apart from other draws
    return Random(config.seed, kPlayedOut, static_cast<uint64_t>(board.game.number)).uniform() >=
           options.played_out;
  };
  const auto turn = [&](int64_t i) {
    Board& board = boards[i];
    const Tree<S, P>& tree = search.tree(i);
    const S root = tree.root();
    if (gives_up(board, root, tree.root_value())) {
      for (int p = 0; p < std::min(2, S::kPlayers); ++p) {
        board.game.returns[p] = p == board.game.gives_up ? min_return(root) : max_return(root);
      }
      board.game.given_up = true;
    } else {
      PlayedMove<S> move{root, {}, tree.root_edges(), tree.root_value(), {}};
      check(!move.edges.empty(), "self-play: {} simulations do not reach any action",
            options.simulations);
      const std::vector<FinalEdge> edges =
          final_edges(std::span<const RootEdge<ActionOf<S>>>(move.edges));
      const bool sample = static_cast<int64_t>(board.game.moves.size()) < options.temperature_moves;
      size_t chosen = 0;
      if (const auto gumbel = tree.gumbel_edge()) {
        chosen = *gumbel;
      } else if (sample) {
        chosen =
            ProportionalVisits(config).choose(edges, max_return(root), min_return(root), board.rng);
      } else {
        chosen =
            typename P::Final(config).choose(edges, max_return(root), min_return(root), board.rng);
      }
      move.action = move.edges[chosen].action;
      if (options.reuse) {
        search.advance(i, move.action);
      } else {
        S next = root;
        next.apply(move.action);
        search.set_root(i, next);
      }
      board.game.moves.push_back(std::move(move));
      earn(i);
      play_chance(i);
    }
    const bool finished = board.game.given_up || search.tree(i).root().player() == kTerminal;
    if (finished || static_cast<int64_t>(board.game.moves.size()) >= options.max_moves) {
      const int64_t next = board.game.number + trees;
      end_game(i, finished);
      return begin_games(i, next);
    }
    return true;
  };
  search.run_until(
      evaluator, [&](int64_t) { return options.simulations; }, turn);
  if (busy != nullptr) {
    *busy = search.evaluator_busy_seconds() / search.run_seconds();
  }
  return search.counters();
}

}  // namespace mstrain::mcts
