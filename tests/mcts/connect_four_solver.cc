#include "tests/mcts/connect_four_solver.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/base/error.h"

namespace mstrain::mcts {
namespace {

constexpr uint64_t kBottom = ConnectFour::kBottom;
constexpr uint64_t kBoard = ConnectFour::kBoard;
constexpr int kWorst = -21;

// Free cells that complete four of `stones`, whether they can be played yet or not.
uint64_t winning_cells(uint64_t stones, uint64_t filled) {
  uint64_t cells = stones << 1 & stones << 2 & stones << 3;
  for (const int step : {6, 7, 8}) {
    const uint64_t above = stones << step & stones << (2 * step);
    const uint64_t below = stones >> step & stones >> (2 * step);
    cells |= above & (stones << (3 * step) | stones >> step);
    cells |= below & (stones >> (3 * step) | stones << step);
  }
  return cells & kBoard & ~filled;
}

uint64_t playable(uint64_t filled) { return (filled + kBottom) & kBoard; }

uint64_t key_of(uint64_t mine, uint64_t filled) { return mine + filled + kBottom; }

}  // namespace

ConnectFourSolver::ConnectFourSolver(size_t entries) : table_(entries | 1) {}

int ConnectFourSolver::search(uint64_t mine, uint64_t filled, int plies, int alpha, int beta) {
  ++nodes_;
  const uint64_t other = mine ^ filled;
  const uint64_t threats = winning_cells(other, filled);
  uint64_t moves = playable(filled);
  if (const uint64_t forced = moves & threats; forced != 0) {
    moves = (forced & (forced - 1)) == 0 ? forced : 0;
  }
  moves &= ~(threats >> 1);  // a stone below a threat lets the other complete it
  if (moves == 0 && plies < 42) {
    return -(42 - plies) / 2;
  }
  if (plies >= 40) {
    return 0;
  }
  alpha = std::max(
      alpha, -(40 - plies) / 2);  // the other wins with the move after the next at the soonest
  beta = std::min(beta, (41 - plies) / 2);  // and so does the mover
  if (alpha >= beta) {
    return alpha;
  }
  // Upper bounds are stored as 1..43, lower bounds as 44..86.
  const uint64_t key = key_of(mine, filled);
  uint64_t& entry = table_[key % table_.size()];
  if (entry >> 8 == key) {
    const int bound = static_cast<int>(entry & 0xff);
    if (bound > 43) {
      alpha = std::max(alpha, bound - 44 + kWorst);
    } else {
      beta = std::min(beta, bound - 1 + kWorst);
    }
    if (alpha >= beta) {
      return bound > 43 ? alpha : beta;
    }
  }
  struct Move {
    uint64_t cell;
    int threats;
  };
  std::array<Move, 7> ordered;
  size_t count = 0;
  for (const int column : {3, 2, 4, 1, 5, 0, 6}) {
    const uint64_t cell = moves & (uint64_t{0x3f} << (7 * column));
    if (cell != 0) {
      ordered[count++] = {cell, std::popcount(winning_cells(mine | cell, filled | cell))};
    }
  }
  std::stable_sort(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(count),
                   [](const Move& a, const Move& b) { return a.threats > b.threats; });
  const auto store = [&](int bound) {
    table_[key % table_.size()] = key << 8 | static_cast<uint64_t>(bound);
  };
  for (size_t i = 0; i < count; ++i) {
    const int value = -search(other, filled | ordered[i].cell, plies + 1, -beta, -alpha);
    if (value >= beta) {
      store(value - kWorst + 44);
      return value;
    }
    alpha = std::max(alpha, value);
  }
  store(alpha - kWorst + 1);
  return alpha;
}

int ConnectFourSolver::score(const ConnectFour& state) {
  check(state.player() != kTerminal, "connect four solver: the game is over");
  const int plies = state.plies();
  if ((winning_cells(state.mine(), state.filled()) & playable(state.filled())) != 0) {
    return (43 - plies) / 2;
  }
  // Narrows from both sides by tests against one value; those nearer to zero come first, since they are cheap.
  int low = -(42 - plies) / 2;
  int high = (43 - plies) / 2;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (middle <= 0 && low / 2 < middle) {
      middle = low / 2;
    } else if (middle >= 0 && high / 2 > middle) {
      middle = high / 2;
    }
    const int value = search(state.mine(), state.filled(), plies, middle, middle + 1);
    (value <= middle ? high : low) = value;
  }
  return low;
}

int ConnectFourSolver::outcome(const ConnectFour& state) {
  if (state.player() == kTerminal) {
    return static_cast<int>(state.returns()[state.plies() & 1]);
  }
  if ((winning_cells(state.mine(), state.filled()) & playable(state.filled())) != 0) {
    return 1;
  }
  const int value = search(state.mine(), state.filled(), state.plies(), -1, 1);
  return value > 0 ? 1 : value < 0 ? -1 : 0;
}

}  // namespace mstrain::mcts
