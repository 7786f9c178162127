// Searches of AnyGame by name, compiled in the library: what mcts_play and the C interface search with.
#pragma once

#include "mcts/any_game.h"
#include "mcts/registry.h"

namespace mstrain::mcts {

extern template struct PolicyBundle<AnyGame, UctPolicies>;
extern template struct PolicyBundle<AnyGame, UctTunedPolicies>;
extern template struct PolicyBundle<AnyGame, PuctPolicies>;
extern template struct PolicyBundle<AnyGame, GumbelPolicies>;
extern template struct PolicyBundle<AnyGame, RavePolicies>;
extern template struct PolicyBundle<AnyGame, EpsilonGreedyPolicies>;
extern template struct PolicyBundle<AnyGame, WuUctPolicies>;
extern template struct PolicyBundle<AnyGame, WideningPolicies>;

const SearchRegistry<AnyGame>& any_searches();

}  // namespace mstrain::mcts
