#include "mcts/any_search.h"

namespace mstrain::mcts {

template class Search<AnyGame, RavePolicies>;
template struct PolicyBundle<AnyGame, RavePolicies>;
template class Search<AnyGame, EpsilonGreedyPolicies>;
template struct PolicyBundle<AnyGame, EpsilonGreedyPolicies>;

}  // namespace mstrain::mcts
