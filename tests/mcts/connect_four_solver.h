// Solves connect four: negamax with alpha-beta on bitboards, a transposition table, forced replies and moves ordered by
// the threats they make. The truth that searches are measured against; of no use to the library itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcts/games/connect_four.h"

namespace mstrain::mcts {

class ConnectFourSolver {
 public:
  explicit ConnectFourSolver(size_t entries = size_t{1} << 20);  // 8 bytes each

  // For the player to move: k where that player wins and has k - 1 stones left then, -k where the other does, 0 for a draw.
  // The state is not terminal.
  int score(const ConnectFour& state);

  // 1, 0 or -1: who wins; much faster. Of a finished game too.
  int outcome(const ConnectFour& state);

  uint64_t nodes() const { return nodes_; }

 private:
  // Exact where alpha < result < beta, else a bound. The mover has no immediate win.
  int search(uint64_t mine, uint64_t filled, int plies, int alpha, int beta);

  std::vector<uint64_t> table_;  // key << 8 | bound; 0 is free
  uint64_t nodes_ = 0;
};

}  // namespace mstrain::mcts
