// Gomoku, free style: five or more in a line win. Boards up to 15x15.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/bits.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

template <int kSize = 15>
class Gomoku {
  static_assert(kSize >= 5 && kSize <= 15);

 public:
  static constexpr std::string_view kName = kSize == 15  ? "gomoku"
                                            : kSize == 9 ? "gomoku_9x9"
                                            : kSize == 7 ? "gomoku_7x7"
                                                         : "gomoku_small";
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kCells = kSize * kSize;
  static constexpr uint32_t kMaxActions = kCells;  // a cell, row by row from the bottom left
  static constexpr int kSymmetries = 8;
  static constexpr int kObservationSize = 2 * kSize * kSize;
  static constexpr std::array<int, 3> kObservationShape = {2, kSize, kSize};

  int player() const { return won_ || plies_ == kCells ? kTerminal : plies_ & 1; }
  void legal(ActionBuffer& out) const {
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      if (!stones_[0].contains(cell) && !stones_[1].contains(cell)) {
        out.push(cell);
      }
    }
  }
  void apply(Action cell) {
    Stones& mine = stones_[plies_ & 1];
    mine.insert(cell);
    won_ = has_five(cell, [&](uint32_t at) { return mine.contains(at); });
    ++plies_;
  }
  void undo(Action cell) {
    --plies_;
    stones_[plies_ & 1].erase(cell);
    won_ = false;
  }
  Returns<2> returns() const {
    const float last = won_ ? 1.0F : 0.0F;  // for who moved last
    return (plies_ & 1) != 0 ? Returns<2>{last, -last} : Returns<2>{-last, last};
  }
  uint64_t hash() const {
    uint64_t out = plies_ & 1;
    for (size_t w = 0; w < Stones::kWords; ++w) {
      out = hash_combine(hash_combine(out, stones_[0].words[w]), stones_[1].words[w]);
    }
    return out;
  }

  // Uniformly random moves: a shuffle of the free cells that stops at the first line.
  Returns<2> rollout(Random& rng) const {
    std::array<uint8_t, kCells> owner{};  // 0 free, 1 and 2 the players
    std::array<uint8_t, kCells> free;
    uint32_t count = 0;
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      owner[cell] = stones_[0].contains(cell) ? 1 : stones_[1].contains(cell) ? 2 : 0;
      free[count] = static_cast<uint8_t>(cell);
      count += owner[cell] == 0 ? 1 : 0;
    }
    for (uint8_t mover = static_cast<uint8_t>((plies_ & 1) + 1); count > 0; mover ^= 3) {
      const uint32_t i = rng.below(count);
      const uint32_t cell = free[i];
      free[i] = free[--count];
      owner[cell] = mover;
      if (has_five(cell, [&](uint32_t at) { return owner[at] == mover; })) {
        return mover == 1 ? Returns<2>{1, -1} : Returns<2>{-1, 1};
      }
    }
    return {0, 0};
  }

  void observe(int player,
               std::span<float> out) const {  // [own, other][row from the bottom][column]
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      out[cell] = stones_[static_cast<size_t>(player)].contains(cell) ? 1.0F : 0.0F;
      out[kCells + cell] = stones_[static_cast<size_t>(1 - player)].contains(cell) ? 1.0F : 0.0F;
    }
  }
  Gomoku symmetry(int k) const {
    Gomoku out = *this;
    for (size_t player = 0; player < 2; ++player) {
      out.stones_[player] = {};
      stones_[player].for_each(
          [&](uint32_t cell) { out.stones_[player].insert(symmetry_action(k, cell)); });
    }
    return out;
  }
  static Action symmetry_action(int k, Action cell) { return symmetric_cell(k, cell, kSize); }

  // "h8g9": letters for columns, numbers for rows from the bottom; x begins.
  std::string action_to_string(Action a) const {
    return cell_name(kGrid, static_cast<int>(a % kSize), static_cast<int>(a / kSize));
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const { return write_grid(kGrid, cells()) + (plies_ & 1 ? " o" : " x"); }
  static Gomoku from_position(std::string_view text) {
    Gomoku out;
    const std::string_view rest =
        read_grid(kGrid, text, ".xo", [&](int column, int row, int symbol) {
          if (symbol > 0) {
            out.stones_[static_cast<size_t>(symbol - 1)].insert(
                static_cast<uint32_t>(kSize * row + column));
          }
        });
    const int mover = read_mover(rest, "xo");
    const uint32_t x = out.stones_[0].size();
    const uint32_t o = out.stones_[1].size();
    check(x == o + static_cast<uint32_t>(mover), "position: {} x and {} o, but {} is to move", x, o,
          "xo"[mover]);
    for (int player = 0; player < 2; ++player) {
      const Stones& stones = out.stones_[static_cast<size_t>(player)];
      stones.for_each([&](uint32_t cell) {
        if (has_five(cell, [&](uint32_t at) { return stones.contains(at); })) {
          check(player != mover, "position: {} has five in a line and is to move", "xo"[mover]);
          out.won_ = true;
        }
      });
    }
    out.plies_ = static_cast<uint8_t>(x + o);
    return out;
  }
  std::string draw() const { return draw_grid(kGrid, cells()); }

 private:
  using Stones = CellSet<kCells>;
  static constexpr Grid kGrid{.columns = kSize, .rows = kSize, .first_row_on_top = false};

  // Whether five of the cells for which `mine(cell)` holds lie in a line through `cell`, which is one of them.
  template <class Mine>
  static bool has_five(uint32_t cell, Mine mine) {
    const int row = static_cast<int>(cell) / kSize;
    const int column = static_cast<int>(cell) % kSize;
    const auto length = [&](int rows, int columns) {
      int count = 0;
      for (int r = row + rows, c = column + columns;
           r >= 0 && r < kSize && c >= 0 && c < kSize && mine(static_cast<uint32_t>(r * kSize + c));
           r += rows, c += columns) {
        ++count;
      }
      return count;
    };
    for (const auto& [rows, columns] : {std::pair{0, 1}, {1, 0}, {1, 1}, {1, -1}}) {
      if (length(rows, columns) + length(-rows, -columns) >= 4) {
        return true;
      }
    }
    return false;
  }
  std::function<char(int, int)> cells() const {
    return [stones = stones_](int column, int row) {
      const auto cell = static_cast<uint32_t>(kSize * row + column);
      return stones[0].contains(cell) ? 'x' : stones[1].contains(cell) ? 'o' : '.';
    };
  }

  std::array<Stones, 2> stones_{};
  uint8_t plies_ = 0;
  bool won_ = false;  // by who moved last
};

}  // namespace mstrain::mcts
