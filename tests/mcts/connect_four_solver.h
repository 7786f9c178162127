// Solves connect four: negamax with alpha-beta on bitboards, a transposition table that knows mirrored positions as one, forced
// replies, and moves ordered by the threats they make and by how often they refuted others. The truth that searches are
// measured against; of no use to the library itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "mcts/games/connect_four.h"

namespace mstrain::mcts {

class ConnectFourSolver {
 public:
  // Entries of 8 bytes, rounded up to a power of two.
  explicit ConnectFourSolver(size_t entries = size_t{1} << 20);

  // For the player to move: k where that player wins and has k - 1 stones left then, -k where the other does, 0 for a draw.
  // The state is not terminal.
  int score(const ConnectFour& state);

  // 1, 0 or -1: who wins; much faster. Of a finished game too.
  int outcome(const ConnectFour& state);
  // Halves of that question, for the player to move: faster still.
  bool wins(const ConnectFour& state);
  bool loses(const ConnectFour& state);

  uint64_t nodes() const { return nodes_; }

 private:
  // Exact where alpha < result < beta, else a bound. The mover has no immediate win.
  int search(const ConnectFour& state, int alpha, int beta);
  // The same; `threats` are the free cells where the other player would complete four.
  int search(uint64_t mine, uint64_t filled, uint64_t threats, int plies, int alpha, int beta);
  // The two entries where a position may stand: the first keeps what was dear, the second what came last.
  uint64_t* bucket(uint64_t key) {
    return table_.get() + 2 * (key * 0x9e3779b97f4a7c15U >> shift_);
  }
  void store(uint64_t key, int plies, int bound);

  struct Free {
    void operator()(uint64_t* p) const { std::free(p); }
  };

  int shift_;                                         // 64 - log2 of the number of buckets
  std::unique_ptr<uint64_t, Free> table_;             // key << 14 | plies << 8 | bound; 0 is free
  std::array<std::array<int32_t, 49>, 2> history_{};  // of each player's moves, by cell
  uint64_t nodes_ = 0;
};

// Uniformly random play of `plies` moves that no one has won.
ConnectFour random_open_position(int plies, Random& rng);

}  // namespace mstrain::mcts
