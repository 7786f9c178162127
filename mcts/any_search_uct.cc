#include "mcts/any_search.h"

namespace mstrain::mcts {

template class Search<AnyGame, UctPolicies>;
template struct PolicyBundle<AnyGame, UctPolicies>;
template class Search<AnyGame, UctTunedPolicies>;
template struct PolicyBundle<AnyGame, UctTunedPolicies>;

}  // namespace mstrain::mcts
