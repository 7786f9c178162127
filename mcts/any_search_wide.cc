#include "mcts/any_search.h"

template struct mstrain::mcts::PolicyBundle<mstrain::mcts::AnyGame, mstrain::mcts::WuUctPolicies>;
template struct mstrain::mcts::PolicyBundle<mstrain::mcts::AnyGame,
                                            mstrain::mcts::WideningPolicies>;
