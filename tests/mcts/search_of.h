// Searches of the tests' games that the library has compiled: the game goes behind virtual calls.
#pragma once

#include "mcts/any_search.h"

namespace mstrain::mcts::testing {

template <GameState S, class P = UctPolicies>
class SearchOf : public Search<AnyGame, P> {
 public:
  using Base = Search<AnyGame, P>;
  using Base::Base;
  using Base::run;
  template <Evaluator<AnyGame> E>
  typename Base::Result run(const S& root, E& evaluator, const Budget& budget) {
    Base::set_root(any_game(root));
    return Base::run(evaluator, budget);
  }
  void set_root(const S& root) { Base::set_root(any_game(root)); }
};

}  // namespace mstrain::mcts::testing
