#include "mcts/any_search.h"

template struct mstrain::mcts::PolicyBundle<mstrain::mcts::AnyGame, mstrain::mcts::RavePolicies>;
template struct mstrain::mcts::PolicyBundle<mstrain::mcts::AnyGame,
                                            mstrain::mcts::EpsilonGreedyPolicies>;
