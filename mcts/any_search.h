// Searches of AnyGame, compiled in the library: by name, which is what mcts_play and the C interface search with, and by type.
#pragma once

#include "mcts/any_game.h"
#include "mcts/registry.h"

namespace mstrain::mcts {

extern template class Search<AnyGame, UctPolicies>;
extern template class Search<AnyGame, UctTunedPolicies>;
extern template class Search<AnyGame, PuctPolicies>;
extern template class Search<AnyGame, GumbelPolicies>;
extern template class Search<AnyGame, RavePolicies>;
extern template class Search<AnyGame, EpsilonGreedyPolicies>;
extern template class Search<AnyGame, WuUctPolicies>;
extern template class Search<AnyGame, WideningPolicies>;

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
