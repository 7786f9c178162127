// Boards of games as people see them.
#pragma once

#include <array>

#include "mcts/play/playable.h"
#include "suites/reinforcement/env/canvas.h"

namespace mstrain::reinforcement {

class BoardPicture {
 public:
  static constexpr double kCell = 32;  // pixels of an edge

  // `name`: the game's. Its observations are [planes, rows, columns].
  BoardPicture(const mcts::play::Playable& game, std::string_view name);

  int64_t cells() const { return int64_t{rows_} * columns_; }
  // The cell's middle.
  Point centre(int64_t cell) const;
  // What an observation says of each cell: colours for two planes, shades for more.
  Canvas draw(std::span<const float> seen) const;
  // Whether it says that something stands there.
  bool is_taken(std::span<const float> seen, int64_t cell) const;

 private:
  int stones() const;  // planes of what stands there: a third one says what is free
  int planes_, rows_, columns_;
  bool stands_on_row_0_;  // it is seen from the side: row 0 is the lowest
};

}  // namespace mstrain::reinforcement
