// One player of mcts_play that searches, and what it reports.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "mcts/play/options.h"
#include "mcts/play/playable.h"
#include "mcts/play/report.h"
#include "mcts/play/tree_picture.h"

namespace mstrain::mcts::play {

// A game of the list, by name.
struct Game {
  explicit Game(const std::string& wanted)
      : name(find_game(wanted).name),
        playable(find_game(wanted).make()),
        start(playable->start()) {}
  const AnyGame::Facts& facts() const { return start.facts(); }
  bool hides() const { return facts().information; }

  std::string name;
  std::unique_ptr<Playable> playable;
  AnyGame start;
};

// One searching player, with the tree it keeps from move to move. Where a game hides something, the player searches with what
// it may know, anew for each move. Throws ConfigError for options that do not fit the game.
class Engine {
 public:
  // `evaluator`, which must outlive it, takes the place of random games; it goes with any policy but uct.
  Engine(const Game& game, const Options& options, uint64_t seed, int64_t simulations,
         AnyEvaluator<AnyGame>* evaluator = nullptr);

  void set_root(const AnyGame& state);
  void advance(Action action);

  // The whole budget; `show` is called with what is known, about ten times meanwhile where a search can go on.
  Analysis think(const std::function<void(const Analysis&)>& show);
  Analysis think() { return report(run(budget_)); }
  Action chosen() const { return chosen_; }

  // The most visited part of the tree, or what is known of the root where there is no single tree.
  Picture picture(const Analysis& a, int64_t nodes) const;

 private:
  using Result = OwnSearch::Result;

  SearchConfig usable(SearchConfig config, uint64_t seed) const;
  Result run(const Budget& budget);
  Analysis report(const Result& result);

  const Game& game_;
  std::unique_ptr<OwnSearch> own_;             // of the default policy,
  std::unique_ptr<AnySearch<AnyGame>> named_;  // or of another one
  RandomRollout rollout_;
  AnyEvaluator<AnyGame>* evaluator_;  // null: rollout_
  bool plans_a_run_;  // or begins each anew, so that ten of a tenth are no more than one
  Budget budget_;
  AnyGame root_;
  Action chosen_{};
};

}  // namespace mstrain::mcts::play
