#include "mcts/any_search.h"

template struct mstrain::mcts::PolicyBundle<mstrain::mcts::AnyGame, mstrain::mcts::UctPolicies>;
template struct mstrain::mcts::PolicyBundle<mstrain::mcts::AnyGame,
                                            mstrain::mcts::UctTunedPolicies>;
