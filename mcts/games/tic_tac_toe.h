// Tic-tac-toe on nine-bit boards.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

class TicTacToe {
 public:
  static constexpr std::string_view kName = "tic_tac_toe";
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kMaxActions = 9;  // a cell, row by row from the top left
  static constexpr int kSymmetries = 8;
  static constexpr int kObservationSize = 2 * 3 * 3;
  static constexpr std::array<int, 3> kObservationShape = {2, 3, 3};

  int player() const { return won_ || plies_ == 9 ? kTerminal : plies_ & 1; }
  void legal(ActionBuffer& out) const {
    const uint32_t filled = stones_[0] | stones_[1];
    for (uint32_t cell = 0; cell < 9; ++cell) {
      if ((filled >> cell & 1) == 0) {
        out.push(cell);
      }
    }
  }
  void apply(Action cell) {
    uint16_t& mine = stones_[plies_ & 1];
    mine = static_cast<uint16_t>(mine | 1U << cell);
    won_ = kHasLine[mine];
    ++plies_;
  }
  void undo(Action cell) {
    --plies_;
    uint16_t& mine = stones_[plies_ & 1];
    mine = static_cast<uint16_t>(mine & ~(1U << cell));
    won_ = false;
  }
  Returns<2> returns() const {
    const float last = won_ ? 1.0F : 0.0F;  // for who moved last
    return (plies_ & 1) != 0 ? Returns<2>{last, -last} : Returns<2>{-last, last};
  }
  uint64_t hash() const { return hash_mix((uint64_t{stones_[0]} << 9 | stones_[1]) + 1); }

  // Uniformly random moves; one 64-bit draw serves all of them: each takes the next digit of a mixed-radix fraction.
  Returns<2> rollout(Random& rng) const {
    std::array<uint32_t, 2> stones = {stones_[0], stones_[1]};
    uint32_t free = ~(stones[0] | stones[1]) & 0x1ff;
    uint64_t fraction = rng.next_u64();
    for (uint32_t plies = plies_; plies < 9; ++plies) {
      const auto digit = static_cast<unsigned __int128>(fraction) * (9 - plies);
      fraction = static_cast<uint64_t>(digit);
      const uint32_t cell = kNthCell[free][static_cast<size_t>(digit >> 64)];
      free ^= cell;
      uint32_t& mine = stones[plies & 1];
      mine |= cell;
      if (kHasLine[mine]) {
        return (plies & 1) == 0 ? Returns<2>{1, -1} : Returns<2>{-1, 1};
      }
    }
    return {0, 0};
  }

  void observe(int player, std::span<float> out) const {  // [own, other][row][column]
    for (size_t i = 0; i < 9; ++i) {
      out[i] = static_cast<float>(stones_[static_cast<size_t>(player)] >> i & 1);
      out[9 + i] = static_cast<float>(stones_[static_cast<size_t>(1 - player)] >> i & 1);
    }
  }
  TicTacToe symmetry(int k) const {
    TicTacToe out = *this;
    out.stones_ = {};
    for (Action cell = 0; cell < 9; ++cell) {
      for (size_t player = 0; player < 2; ++player) {
        const uint32_t stone = stones_[player] >> cell & 1;
        out.stones_[player] =
            static_cast<uint16_t>(out.stones_[player] | stone << symmetry_action(k, cell));
      }
    }
    return out;
  }
  static Action symmetry_action(int k, Action cell) { return symmetric_cell(k, cell, 3); }

  // Cells are 1 to 9, row by row from the top left.
  std::string action_to_string(Action cell) const { return std::to_string(cell + 1); }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const { return write_grid(kGrid, cells()) + (plies_ & 1 ? " o" : " x"); }
  static TicTacToe from_position(std::string_view text) {
    TicTacToe out;
    std::array<int, 2> count{};
    const std::string_view rest =
        read_grid(kGrid, text, ".xo", [&](int column, int row, int symbol) {
          if (symbol > 0) {
            const auto player = static_cast<size_t>(symbol - 1);
            out.stones_[player] =
                static_cast<uint16_t>(out.stones_[player] | 1U << (3 * row + column));
            ++count[player];
          }
        });
    const int mover = read_mover(rest, "xo");
    check(count[0] - count[1] == mover, "position: {} x and {} o, but {} is to move", count[0],
          count[1], "xo"[mover]);
    check(!kHasLine[out.stones_[static_cast<size_t>(mover)]],
          "position: {} has three in a line and is to move", "xo"[mover]);
    out.plies_ = static_cast<uint8_t>(count[0] + count[1]);
    out.won_ = kHasLine[out.stones_[static_cast<size_t>(1 - mover)]];
    return out;
  }
  std::string draw() const {
    std::string out;
    const auto cell = cells();
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column) {
        const char stone = cell(column, row);
        out += ' ';
        out += stone == '.' ? static_cast<char>('1' + 3 * row + column) : stone;
        out += column < 2 ? " |" : "\n";
      }
      out += row < 2 ? "---+---+---\n" : "";
    }
    return out;
  }

 private:
  static constexpr Grid kGrid{.columns = 3, .rows = 3};

  static constexpr std::array<bool, 512> kHasLine = [] {
    std::array<bool, 512> table{};
    for (uint32_t stones = 0; stones < 512; ++stones) {
      for (const uint32_t line : {0007U, 0070U, 0700U, 0111U, 0222U, 0444U, 0421U, 0124U}) {
        table[stones] = table[stones] || (stones & line) == line;
      }
    }
    return table;
  }();
  // kNthCell[cells][n]: the n-th of `cells`, as a bit.
  static constexpr std::array<std::array<uint16_t, 9>, 512> kNthCell = [] {
    std::array<std::array<uint16_t, 9>, 512> table{};
    for (uint32_t cells = 0; cells < 512; ++cells) {
      size_t n = 0;
      for (uint32_t bit = 1; bit < 512; bit <<= 1) {
        if ((cells & bit) != 0) {
          table[cells][n++] = static_cast<uint16_t>(bit);
        }
      }
    }
    return table;
  }();

  std::function<char(int, int)> cells() const {
    return [stones = stones_](int column, int row) {
      const int bit = 3 * row + column;
      return (stones[0] >> bit & 1) != 0 ? 'x' : (stones[1] >> bit & 1) != 0 ? 'o' : '.';
    };
  }

  std::array<uint16_t, 2> stones_{};
  uint8_t plies_ = 0;
  bool won_ = false;  // by who moved last
};

}  // namespace mstrain::mcts
