#include "mcts/play/boxed_game.h"

namespace mstrain::mcts::play {

template <>
const SearchRegistry<TwoPlayerBox>& boxed_registry<TwoPlayerBox>() {
  static const SearchRegistry<TwoPlayerBox> kRegistry;
  return kRegistry;
}

}  // namespace mstrain::mcts::play
