#include "mcts/play/boxed_game.h"

template const mstrain::mcts::SearchRegistry<mstrain::mcts::play::PayingBox>&
mstrain::mcts::play::boxed_registry<mstrain::mcts::play::PayingBox>();
