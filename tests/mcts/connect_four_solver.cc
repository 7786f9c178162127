#include "tests/mcts/connect_four_solver.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>

#include "core/base/error.h"

namespace mstrain::mcts {
namespace {

constexpr uint64_t kBottom = ConnectFour::kBottom;
constexpr uint64_t kBoard = ConnectFour::kBoard;
constexpr int kWorst = -21;
constexpr size_t kHugePage = size_t{1} << 21;
constexpr int kMirrored = 20;  // positions of up to as many stones are one with their mirror image
// A table in main memory costs more than a small search: positions with more stones than kStored are not kept, and the
// replies are looked up before one is searched where fewer than kProbed are on the board.
constexpr int kStored = 32;
constexpr int kProbed = 30;

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

// The number of a position: each column is 2^height + the mover's stones. With few stones the same for its mirror image; later
// mirrored positions hardly meet.
uint64_t key_of(uint64_t mine, uint64_t filled, int plies) {
  const uint64_t key = mine + filled + kBottom;
  if (plies > kMirrored) {
    return key;
  }
  constexpr uint64_t kColumn = 0x7f;
  const uint64_t mirrored = (key & kColumn) << 42 | (key & kColumn << 7) << 28 |
                            (key & kColumn << 14) << 14 | (key & kColumn << 21) |
                            (key >> 14 & kColumn << 14) | (key >> 28 & kColumn << 7) | key >> 42;
  return std::min(key, mirrored);
}

}  // namespace

ConnectFourSolver::ConnectFourSolver(size_t entries)
    : shift_(65 - std::bit_width(std::max(entries, size_t{4}) - 1)) {
  const size_t bytes = sizeof(uint64_t) * 2 << (64 - shift_);
  table_.reset(static_cast<uint64_t*>(
      std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage)));
  check(table_ != nullptr, "connect four solver: no memory for the table");
  madvise(table_.get(), bytes,
          MADV_HUGEPAGE);  // a wish: nearly every probe is at a page of its own
  std::fill_n(table_.get(), bytes / sizeof(uint64_t), 0);
}

void ConnectFourSolver::store(uint64_t key, int plies, int bound) {
  if (plies > kStored) {
    return;
  }
  uint64_t* at = bucket(key);
  const uint64_t entry =
      key << 14 | static_cast<uint64_t>(plies) << 8 | static_cast<uint64_t>(bound);
  if (at[0] >> 14 == key || at[0] == 0 || static_cast<int>(at[0] >> 8 & 63) >= plies) {
    at[0] = entry;
  } else {
    at[1] = entry;
  }
}

int ConnectFourSolver::search(uint64_t mine, uint64_t filled, uint64_t threats, int plies,
                              int alpha, int beta) {
  ++nodes_;
  const uint64_t other = mine ^ filled;
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
    return -search(other, filled | moves, winning_cells(mine | moves, filled | moves), plies + 1,
                   -beta, -alpha);
  }
  // Upper bounds are stored as 1..43, lower bounds as 44..86.
  const uint64_t key = key_of(mine, filled, plies);
  const auto stored = [&](uint64_t wanted) {
    const uint64_t* at = bucket(wanted);
    return static_cast<int>((at[0] >> 14 == wanted   ? at[0]
                             : at[1] >> 14 == wanted ? at[1]
                                                     : 0) &
                            0xff);
  };
  if (const int bound = plies <= kStored ? stored(key) : 0; bound > 43) {
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
    uint64_t threats;  // made by it
    int32_t rank;
  };
  auto& history = history_[static_cast<size_t>(plies & 1)];
  std::array<uint64_t, 7> keys;
  std::array<Move, 7> ordered;
  size_t count = 0;
  for (const int column : {3, 2, 4, 1, 5, 0, 6}) {
    const uint64_t cell = moves & (uint64_t{0x3f} << (7 * column));
    if (cell == 0) {
      continue;
    }
    if (plies < kProbed) {
      keys[count] = key_of(other, filled | cell, plies + 1);
      __builtin_prefetch(bucket(keys[count]));
    }
    const uint64_t made = winning_cells(mine | cell, filled | cell);
    const Move move{
        cell, made,
        (std::popcount(made) << 20) + history[static_cast<size_t>(std::countr_zero(cell))]};
    size_t place = count++;
    for (; place > 0 && ordered[place - 1].rank < move.rank; --place) {
      ordered[place] = ordered[place - 1];
    }
    ordered[place] = move;
  }
  if (plies < kProbed) {  // a reply that is known to lose for the other settles this node
    for (size_t i = 0; i < count; ++i) {
      const int bound = stored(keys[i]);
      if (bound > 0 && bound <= 43 && -(bound - 1 + kWorst) >= beta) {
        return -(bound - 1 + kWorst);
      }
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const int value =
        -search(other, filled | ordered[i].cell, ordered[i].threats, plies + 1, -beta, -alpha);
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

int ConnectFourSolver::search(const ConnectFour& state, int alpha, int beta) {
  const uint64_t theirs = state.mine() ^ state.filled();
  return search(state.mine(), state.filled(), winning_cells(theirs, state.filled()), state.plies(),
                alpha, beta);
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
    const int value = search(state, middle, middle + 1);
    (value <= middle ? high : low) = value;
  }
  return low;
}

bool ConnectFourSolver::wins(const ConnectFour& state) {
  if (state.player() == kTerminal) {
    return state.returns()[state.plies() & 1] > 0;
  }
  return (winning_cells(state.mine(), state.filled()) & playable(state.filled())) != 0 ||
         search(state, 0, 1) > 0;
}

bool ConnectFourSolver::loses(const ConnectFour& state) {
  if (state.player() == kTerminal) {
    return state.returns()[state.plies() & 1] < 0;
  }
  return (winning_cells(state.mine(), state.filled()) & playable(state.filled())) == 0 &&
         search(state, -1, 0) < 0;
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
