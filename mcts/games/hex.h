// Hex on a rhombus of up to 11x11 cells, without the swap rule: the first player (x) joins top and bottom, the second (o)
// left and right. One of them always does.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/bits.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

template <int kSize = 11>
class Hex {
  static_assert(kSize >= 2 && kSize <= 11);

 public:
  static constexpr std::string_view kName = kSize == 11  ? "hex"
                                            : kSize == 7 ? "hex_7x7"
                                            : kSize == 5 ? "hex_5x5"
                                                         : "hex_small";
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kCells = kSize * kSize;
  static constexpr uint32_t kMaxActions = kCells;  // a cell, row by row from the top left
  static constexpr int kSymmetries = 2;            // half a turn
  static constexpr int kObservationSize = 2 * kSize * kSize;
  static constexpr std::array<int, 3> kObservationShape = {2, kSize, kSize};

  int player() const { return won_ ? kTerminal : plies_ & 1; }
  void legal(ActionBuffer& out) const {
    const Cells filled = stones_[0] | stones_[1];
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      if ((filled >> cell & 1) == 0) {
        out.push(cell);
      }
    }
  }
  void apply(Action cell) {
    const int mover = plies_ & 1;
    stones_[static_cast<size_t>(mover)] |= Cells{1} << cell;
    won_ = joins(Cells{1} << cell, stones_[static_cast<size_t>(mover)], mover);
    ++plies_;
  }
  void undo(Action cell) {
    --plies_;
    stones_[plies_ & 1] &= ~(Cells{1} << cell);
    won_ = false;
  }
  Returns<2> returns() const {  // who moved last has won
    return (plies_ & 1) != 0 ? Returns<2>{1, -1} : Returns<2>{-1, 1};
  }
  uint64_t hash() const {
    uint64_t out = 0;
    for (const Cells cells : stones_) {
      out = hash_combine(hash_combine(out, static_cast<uint64_t>(cells)),
                         static_cast<uint64_t>(cells >> 64));
    }
    return out;
  }

  // Uniformly random moves. The board is filled to the end and looked at once: later stones never undo a joined pair of
  // sides, so the filled board has the same winner.
  Returns<2> rollout(Random& rng) const {
    std::array<uint8_t, kCells> free;
    uint32_t count = 0;
    const Cells filled = stones_[0] | stones_[1];
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      free[count] = static_cast<uint8_t>(cell);
      count += (filled >> cell & 1) == 0 ? 1 : 0;
    }
    Cells first = stones_[0];
    uint32_t left = (count + 1 - (plies_ & 1)) / 2;  // moves that the first player has
    for (; left > 0; --left) {
      const uint32_t i = rng.below(count);
      first |= Cells{1} << free[i];
      free[i] = free[--count];
    }
    return joins(first & kTopRow, first, 0) ? Returns<2>{1, -1} : Returns<2>{-1, 1};
  }

  void observe(int player, std::span<float> out) const {  // [own, other][row][column]
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      out[cell] = static_cast<float>(stones_[static_cast<size_t>(player)] >> cell & 1);
      out[kCells + cell] = static_cast<float>(stones_[static_cast<size_t>(1 - player)] >> cell & 1);
    }
  }
  Hex symmetry(int k) const {
    Hex out = *this;
    if (k == 1) {
      for (size_t player = 0; player < 2; ++player) {
        out.stones_[player] = 0;
        for (uint32_t cell = 0; cell < kCells; ++cell) {
          out.stones_[player] |= (stones_[player] >> cell & 1) << (kCells - 1 - cell);
        }
      }
    }
    return out;
  }
  static Action symmetry_action(int k, Action cell) { return k == 1 ? kCells - 1 - cell : cell; }

  // "f6e7": letters for columns, numbers for rows from the top.
  std::string action_to_string(Action a) const {
    return cell_name(kGrid, static_cast<int>(a % kSize), static_cast<int>(a / kSize));
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const { return write_grid(kGrid, cells()) + (plies_ & 1 ? " o" : " x"); }
  static Hex from_position(std::string_view text) {
    Hex out;
    std::array<int, 2> count{};
    const std::string_view rest =
        read_grid(kGrid, text, ".xo", [&](int column, int row, int symbol) {
          if (symbol > 0) {
            out.stones_[static_cast<size_t>(symbol - 1)] |= Cells{1} << (kSize * row + column);
            ++count[static_cast<size_t>(symbol - 1)];
          }
        });
    const int mover = read_mover(rest, "xo");
    check(count[0] - count[1] == mover, "position: {} x and {} o, but {} is to move", count[0],
          count[1], "xo"[mover]);
    const auto joined = [&](int player) {
      const Cells stones = out.stones_[static_cast<size_t>(player)];
      return joins(stones & (player == 0 ? kTopRow : kLeft), stones, player);
    };
    check(!joined(mover), "position: {} has joined both sides and is to move", "xo"[mover]);
    out.won_ = joined(1 - mover);
    out.plies_ = static_cast<uint8_t>(count[0] + count[1]);
    return out;
  }
  std::string draw() const { return draw_grid(kGrid, cells()); }

 private:
  using Cells = unsigned __int128;
  static constexpr Grid kGrid{.columns = kSize, .rows = kSize, .slant = 1};
  static constexpr Cells kTopRow = (Cells{1} << kSize) - 1;
  static constexpr Cells kBottomRow = kTopRow << (kCells - kSize);
  static constexpr Cells kLeft = [] {
    Cells out = 0;
    for (int row = 0; row < kSize; ++row) {
      out |= Cells{1} << (kSize * row);
    }
    return out;
  }();
  static constexpr Cells kRight = kLeft << (kSize - 1);

  // Whether the groups of `stones` that hold `from` touch both sides of `player`.
  static bool joins(Cells from, Cells stones, int player) {
    const Cells side = player == 0 ? kTopRow : kLeft;
    const Cells opposite = player == 0 ? kBottomRow : kRight;
    for (Cells group = from;;) {
      const Cells to_right = (group & ~kRight) << 1;
      const Cells to_left = (group & ~kLeft) >> 1;
      const Cells grown = (group | to_right | to_left | group << kSize | group >> kSize |
                           (group & ~kLeft) << (kSize - 1) | (group & ~kRight) >> (kSize - 1)) &
                          stones;
      if ((grown & side) != 0 && (grown & opposite) != 0) {
        return true;
      }
      if (grown == group) {
        return false;
      }
      group = grown;
    }
  }
  std::function<char(int, int)> cells() const {
    return [first = stones_[0], second = stones_[1]](int column, int row) {
      const int cell = kSize * row + column;
      return (first >> cell & 1) != 0 ? 'x' : (second >> cell & 1) != 0 ? 'o' : '.';
    };
  }

  std::array<Cells, 2> stones_{};
  uint8_t plies_ = 0;
  bool won_ = false;  // by who moved last
};

}  // namespace mstrain::mcts
