#include "mcts/any_search.h"

namespace mstrain::mcts {

template class Search<AnyGame, WuUctPolicies>;
template struct PolicyBundle<AnyGame, WuUctPolicies>;
template class Search<AnyGame, WideningPolicies>;
template struct PolicyBundle<AnyGame, WideningPolicies>;

}  // namespace mstrain::mcts
