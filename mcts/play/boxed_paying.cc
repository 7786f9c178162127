#include "mcts/play/boxed_game.h"

namespace mstrain::mcts::play {

template <>
const SearchRegistry<PayingBox>& boxed_registry<PayingBox>() {
  static const SearchRegistry<PayingBox> kRegistry;
  return kRegistry;
}

}  // namespace mstrain::mcts::play
