#include "mcts/any_search.h"

namespace mstrain::mcts {

template class Search<AnyGame, PuctPolicies>;
template struct PolicyBundle<AnyGame, PuctPolicies>;
template class Search<AnyGame, GumbelPolicies>;
template struct PolicyBundle<AnyGame, GumbelPolicies>;

}  // namespace mstrain::mcts
