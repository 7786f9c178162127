#include "mcts/any_search.h"

template struct mstrain::mcts::PolicyBundle<mstrain::mcts::AnyGame, mstrain::mcts::PuctPolicies>;
template struct mstrain::mcts::PolicyBundle<mstrain::mcts::AnyGame, mstrain::mcts::GumbelPolicies>;
