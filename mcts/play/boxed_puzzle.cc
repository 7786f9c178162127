#include "mcts/play/boxed_game.h"

namespace mstrain::mcts::play {

template <>
const SearchRegistry<PuzzleBox>& boxed_registry<PuzzleBox>() {
  static const SearchRegistry<PuzzleBox> kRegistry;
  return kRegistry;
}

}  // namespace mstrain::mcts::play
