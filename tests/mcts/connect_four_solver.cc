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

// The number of a position, the same for its mirror image: each column is 2^height + the mover's stones.
uint64_t key_of(uint64_t mine, uint64_t filled) {
  const uint64_t key = mine + filled + kBottom;
  constexpr uint64_t kColumn = 0x7f;
  const uint64_t mirrored = (key & kColumn) << 42 | (key & kColumn << 7) << 28 |
                            (key & kColumn << 14) << 14 | (key & kColumn << 21) |
                            (key >> 14 & kColumn << 14) | (key >> 28 & kColumn << 7) | key >> 42;
  return std::min(key, mirrored);
}

}  // namespace

ConnectFourSolver::ConnectFourSolver(size_t entries) : table_((entries | 2) & ~size_t{1}) {}

void ConnectFourSolver::store(uint64_t key, int plies, int bound) {
  uint64_t* at = bucket(key);
  const uint64_t entry =
      key << 14 | static_cast<uint64_t>(plies) << 8 | static_cast<uint64_t>(bound);
  if (at[0] >> 14 == key || at[0] == 0 || static_cast<int>(at[0] >> 8 & 63) >= plies) {
    at[0] = entry;
  } else {
    at[1] = entry;
  }
}

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
  if ((moves & (moves - 1)) == 0) {  // a single move: its position is not worth an entry
    return -search(other, filled | moves, plies + 1, -beta, -alpha);
  }
  // Upper bounds are stored as 1..43, lower bounds as 44..86.
  const uint64_t key = key_of(mine, filled);
  const auto stored = [&](uint64_t wanted) {
    const uint64_t* at = bucket(wanted);
    return static_cast<int>((at[0] >> 14 == wanted   ? at[0]
                             : at[1] >> 14 == wanted ? at[1]
                                                     : 0) &
                            0xff);
  };
  if (const int bound = stored(key); bound > 43) {
    alpha = std::max(alpha, bound - 44 + kWorst);
    if (alpha >= beta) {
      return alpha;
    }
  } else if (bound > 0) {
    beta = std::min(beta, bound - 1 + kWorst);
    if (alpha >= beta) {
      return beta;
    }
  }
  struct Move {
    uint64_t cell;
    int32_t rank;
  };
  auto& history = history_[static_cast<size_t>(plies & 1)];
  std::array<Move, 7> ordered;
  size_t count = 0;
  for (const int column : {3, 2, 4, 1, 5, 0, 6}) {
    const uint64_t cell = moves & (uint64_t{0x3f} << (7 * column));
    if (cell == 0) {
      continue;
    }
    // A reply that is known to lose for the other settles this node without a search.
    if (plies < 30) {
      const int bound = stored(key_of(other, filled | cell));
      if (bound > 0 && bound <= 43 && -(bound - 1 + kWorst) >= beta) {
        return -(bound - 1 + kWorst);
      }
    }
    const int made = std::popcount(winning_cells(mine | cell, filled | cell));
    const Move move{cell, (made << 20) + history[static_cast<size_t>(std::countr_zero(cell))]};
    size_t place = count++;
    for (; place > 0 && ordered[place - 1].rank < move.rank; --place) {
      ordered[place] = ordered[place - 1];
    }
    ordered[place] = move;
  }
  for (size_t i = 0; i < count; ++i) {
    const int value = -search(other, filled | ordered[i].cell, plies + 1, -beta, -alpha);
    if (value >= beta) {
      store(key, plies, value - kWorst + 44);
      // What refutes gains, what was tried before it loses.
      const auto of = [](const Move& m) { return static_cast<size_t>(std::countr_zero(m.cell)); };
      for (size_t j = 0; j < i; ++j) {
        history[of(ordered[j])] = std::max(history[of(ordered[j])] - 1, -(1 << 19));
      }
      auto& refutes = history[of(ordered[i])];
      refutes = std::min(refutes + static_cast<int32_t>(i), 1 << 19);
      return value;
    }
    alpha = std::max(alpha, value);
  }
  store(key, plies, alpha - kWorst + 1);
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

bool ConnectFourSolver::wins(const ConnectFour& state) {
  if (state.player() == kTerminal) {
    return state.returns()[state.plies() & 1] > 0;
  }
  return (winning_cells(state.mine(), state.filled()) & playable(state.filled())) != 0 ||
         search(state.mine(), state.filled(), state.plies(), 0, 1) > 0;
}

bool ConnectFourSolver::loses(const ConnectFour& state) {
  if (state.player() == kTerminal) {
    return state.returns()[state.plies() & 1] < 0;
  }
  return (winning_cells(state.mine(), state.filled()) & playable(state.filled())) == 0 &&
         search(state.mine(), state.filled(), state.plies(), -1, 0) < 0;
}

int ConnectFourSolver::outcome(const ConnectFour& state) {
  return wins(state) ? 1 : loses(state) ? -1 : 0;
}

ConnectFour random_open_position(int plies, Random& rng) {
  ActionBuffer actions;
  for (;;) {
    ConnectFour state;
    while (state.plies() < plies && state.player() != kTerminal) {
      actions.clear();
      state.legal(actions);
      state.apply(actions[rng.below(static_cast<uint32_t>(actions.size()))]);
    }
    if (state.player() != kTerminal) {
      return state;
    }
  }
}

}  // namespace mstrain::mcts
