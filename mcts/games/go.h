// Go on boards of up to 9x9: area scoring, positional superko (no placement may repeat an earlier board), suicide
// forbidden. The game is over after two passes in a row, or after two moves per cell on average (then scored as it stands).
//
// A state is its history of boards, which makes superko exact and undo one decrement; copying copies what was played.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/bits.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

// White gets kHalfKomi / 2 points more; an odd number leaves no draws.
template <int kSize = 9, int kHalfKomi = 15>
class Go {
  static_assert(kSize >= 2 && kSize <= 9);

 public:
  static constexpr std::string_view kName = kSize == 9   ? "go"
                                            : kSize == 7 ? "go_7x7"
                                            : kSize == 5 ? "go_5x5"
                                                         : "go_small";
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kCells = kSize * kSize;
  static constexpr Action kPass = kCells;
  static constexpr uint32_t kMaxActions =
      kCells + 1;  // a cell, row by row from the bottom left, or pass
  static constexpr int kMaxPlies = 2 * kSize * kSize;
  static constexpr bool kPreferUndo = true;
  static constexpr bool kHistory = true;
  static constexpr int kSymmetries = 8;
  static constexpr int kObservationSize = 3 * kSize * kSize;
  static constexpr std::array<int, 3> kObservationShape = {3, kSize, kSize};

  Go() { history_[0] = {}; }
  Go(const Go& other) { *this = other; }
  Go& operator=(const Go& other) {
    plies_ = other.plies_;
    std::copy_n(other.history_.begin(), plies_ + 1, history_.begin());
    return *this;
  }

  int player() const {
    const bool over = plies_ == kMaxPlies || (passed(0) && passed(1));
    return over ? kTerminal : plies_ & 1;
  }
  void legal(ActionBuffer& out) const {
    for_each(legal_cells(), [&](uint32_t cell) { out.push(cell); });
    out.push(kPass);
  }
  void apply(Action action) {
    Board& next = history_[static_cast<size_t>(plies_ + 1)];
    next = board();
    if (action != kPass) {
      next.play(cell_bit(action), plies_ & 1);
    }
    ++plies_;
  }
  void undo(Action) { --plies_; }
  Returns<2> returns() const { return result(board()); }
  uint64_t hash() const {
    uint64_t out = static_cast<uint64_t>((plies_ & 1) + (passed(0) ? 2 : 0));
    for (const Cells cells : board().stones) {
      out = hash_combine(hash_combine(out, static_cast<uint64_t>(cells)),
                         static_cast<uint64_t>(cells >> 64));
    }
    return out;
  }

  // Stones and surrounded cells of black minus those of white, without komi.
  int area() const { return area(board()); }

  // Uniformly random moves that fill no eye of their own, with the simple ko rule; passes only where none is left.
  Returns<2> rollout(Random& rng) const {
    Board now = board();
    std::array<Cells, 2> before = plies_ > 0 ? history_[static_cast<size_t>(plies_ - 1)].stones
                                             : std::array<Cells, 2>{kAll, kAll};
    int mover = plies_ & 1;
    int passes = passed(0) ? 1 : 0;
    for (int left = 3 * kSize * kSize; passes < 2 && left > 0; --left, mover ^= 1) {
      const std::array<Cells, 2> last = now.stones;
      passes = random_move(now, before, mover, rng) ? 0 : passes + 1;
      before = last;
    }
    return result(now);
  }

  void observe(int player,
               std::span<float> out) const {  // [own, other, empty][row from the bottom][column]
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      const bool own = (board().stones[static_cast<size_t>(player)] & cell_bit(cell)) != 0;
      const bool theirs = (board().stones[static_cast<size_t>(1 - player)] & cell_bit(cell)) != 0;
      out[cell] = own ? 1.0F : 0.0F;
      out[kCells + cell] = theirs ? 1.0F : 0.0F;
      out[2 * kCells + cell] = own || theirs ? 0.0F : 1.0F;
    }
  }
  Go symmetry(int k) const {
    Go out;
    out.plies_ = plies_;
    const auto map = [k](Cells cells) {
      Cells mapped = 0;
      for_each(cells, [&](uint32_t cell) { mapped |= cell_bit(symmetric_cell(k, cell, kSize)); });
      return mapped;
    };
    for (size_t i = 0; i <= static_cast<size_t>(plies_); ++i) {
      const Board& from = history_[i];
      out.history_[i] = {{map(from.stones[0]), map(from.stones[1])}, map(from.captured)};
    }
    return out;
  }
  static Action symmetry_action(int k, Action a) {
    return a == kPass ? kPass : symmetric_cell(k, a, kSize);
  }

  // "e5 c3 pass": letters for columns without i, numbers for rows from the bottom; black (x) begins.
  std::string action_to_string(Action a) const {
    return a == kPass ? "pass"
                      : cell_name(kGrid, static_cast<int>(a % kSize), static_cast<int>(a / kSize));
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const {  // the moves from the empty board, which superko depends on
    std::string out;
    for (int ply = 0; ply < plies_; ++ply) {
      const size_t at = static_cast<size_t>(ply);
      const size_t mover = at & 1;
      const Cells stone = history_[at + 1].stones[mover] & ~history_[at].stones[mover];
      Action action = kPass;
      for_each(stone, [&](uint32_t cell) { action = cell; });
      out += (ply == 0 ? "" : " ") + action_to_string(action);
    }
    return out;
  }
  static Go from_position(std::string_view text) { return play_moves(Go(), text); }
  std::string draw() const {
    return draw_grid(kGrid, [this](int column, int row) {
      const Cells cell = cell_bit(static_cast<uint32_t>(kSize * row + column));
      return (board().stones[0] & cell) != 0 ? 'x' : (board().stones[1] & cell) != 0 ? 'o' : '.';
    });
  }

 private:
  using Cells = unsigned __int128;
  static constexpr Grid kGrid{
      .columns = kSize, .rows = kSize, .first_row_on_top = false, .skip_i = true};
  static constexpr Cells kAll = (Cells{1} << kCells) - 1;
  static constexpr Cells kLeft = [] {
    Cells out = 0;
    for (int row = 0; row < kSize; ++row) {
      out |= Cells{1} << (kSize * row);
    }
    return out;
  }();
  static constexpr Cells kRight = kLeft << (kSize - 1);

  static constexpr Cells cell_bit(uint32_t cell) { return Cells{1} << cell; }
  template <class F>
  static void for_each(Cells cells, F f) {
    for_each_bit(static_cast<uint64_t>(cells), f);
    for_each_bit(static_cast<uint64_t>(cells >> 64), [&](uint32_t i) { f(64 + i); });
  }
  static Cells neighbours(Cells cells) {
    return ((cells & ~kRight) << 1 | (cells & ~kLeft) >> 1 | cells << kSize | cells >> kSize) &
           kAll;
  }
  // All of `within` that is joined to `from`.
  static Cells flood(Cells from, Cells within) {
    for (Cells group = from & within;;) {
      const Cells grown = (group | neighbours(group)) & within;
      if (grown == group) {
        return group;
      }
      group = grown;
    }
  }

  struct Board {
    std::array<Cells, 2> stones{};
    Cells captured =
        0;  // every cell that was ever emptied: only there can a placement repeat a board

    Cells empty() const { return kAll & ~(stones[0] | stones[1]); }

    // Places a stone and removes what it captures.
    void play(Cells stone, int mover) {
      stones[static_cast<size_t>(mover)] |= stone;
      Cells& theirs = stones[static_cast<size_t>(1 - mover)];
      for (Cells touched = neighbours(stone) & theirs; touched != 0;) {
        const Cells group = flood(touched & (~touched + 1), theirs);
        touched &= ~group;
        if ((neighbours(group) & empty()) == 0) {
          theirs &= ~group;
          captured |= group;
        }
      }
    }
    // Whether the group of a stone just placed has a liberty.
    bool breathes(Cells stone, int mover) const {
      return (neighbours(flood(stone, stones[static_cast<size_t>(mover)])) & empty()) != 0;
    }
  };

  const Board& board() const { return history_[static_cast<size_t>(plies_)]; }
  // Whether the last move, or the one before it, was a pass: the only move that leaves the board as it is.
  bool passed(int back) const {
    const auto at = static_cast<size_t>(plies_ - back);
    return plies_ > back && history_[at].stones == history_[at - 1].stones;
  }

  Cells legal_cells() const {
    const Board& now = board();
    const Cells empty = now.empty();
    const Cells open = empty & neighbours(empty);  // a stone there has a liberty at once
    Cells out = open & ~now.captured;
    for_each(empty & ~out, [&](uint32_t cell) {
      Board next = now;
      next.play(cell_bit(cell), plies_ & 1);
      if (next.breathes(cell_bit(cell), plies_ & 1) && !repeats(next, cell)) {
        out |= cell_bit(cell);
      }
    });
    return out;
  }
  bool repeats(const Board& next, uint32_t cell) const {
    return (board().captured & cell_bit(cell)) != 0 &&
           std::any_of(history_.begin(), history_.begin() + plies_ + 1,
                       [&](const Board& old) { return old.stones == next.stones; });
  }

  static bool random_move(Board& now, const std::array<Cells, 2>& before, int mover, Random& rng) {
    const Cells mine = now.stones[static_cast<size_t>(mover)];
    for (Cells left = now.empty(); left != 0;) {
      const auto low = static_cast<uint64_t>(left);
      const auto high = static_cast<uint64_t>(left >> 64);
      const auto count = static_cast<uint32_t>(std::popcount(low));
      const uint32_t n = rng.below(count + static_cast<uint32_t>(std::popcount(high)));
      const uint32_t cell = n < count ? nth_bit(low, n) : 64 + nth_bit(high, n - count);
      const Cells stone = cell_bit(cell);
      left &= ~stone;
      const Cells around = neighbours(stone);
      if ((around & ~mine) == 0 && is_eye(cell, mine, now.stones[static_cast<size_t>(1 - mover)])) {
        continue;
      }
      Board next = now;
      next.play(stone, mover);
      if (next.breathes(stone, mover) && next.stones != before) {
        now = next;
        return true;
      }
    }
    return false;
  }
  // A cell between own stones is an eye unless the other holds two of its corners, or one at the board's edge.
  static bool is_eye(uint32_t cell, Cells mine, Cells theirs) {
    const Cells row = cell_bit(cell);
    const Cells beside = (row & ~kRight) << 1 | (row & ~kLeft) >> 1;
    const Cells corners = (beside << kSize | beside >> kSize) & kAll;
    const int held = popcount(corners & theirs);
    return mine != 0 && held <= (popcount(corners) == 4 ? 1 : 0);
  }
  static int popcount(Cells cells) {
    return std::popcount(static_cast<uint64_t>(cells)) +
           std::popcount(static_cast<uint64_t>(cells >> 64));
  }
  static int area(const Board& b) {
    const Cells empty = b.empty();
    const Cells black = flood(neighbours(b.stones[0]), empty);
    const Cells white = flood(neighbours(b.stones[1]), empty);
    return popcount(b.stones[0] | (black & ~white)) - popcount(b.stones[1] | (white & ~black));
  }
  static Returns<2> result(const Board& b) {
    const int halves = 2 * area(b) - kHalfKomi;
    const float black = halves > 0 ? 1.0F : halves < 0 ? -1.0F : 0.0F;
    return {black, -black};
  }

  int plies_ = 0;
  std::array<Board, kMaxPlies + 1> history_;
};

}  // namespace mstrain::mcts
