#include "mcts/play/boxed_game.h"

template const mstrain::mcts::SearchRegistry<mstrain::mcts::play::TwoPlayerBox>&
mstrain::mcts::play::boxed_registry<mstrain::mcts::play::TwoPlayerBox>();
