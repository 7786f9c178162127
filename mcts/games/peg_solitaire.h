// Peg solitaire on the English board: 33 holes, the middle one empty; a peg jumps over another into a free hole and takes
// it out. A game pays 1 where one peg is left, and 1/31 less for each further one.
//
// Bitboard: bit 7 * row + column, row 0 at the top.
#pragma once

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

class PegSolitaire {
 public:
  static constexpr std::string_view kName = "peg_solitaire";
  static constexpr int kPlayers = 1;
  static constexpr uint32_t kMaxActions = 4 * 49;  // 49 * direction + from; right, left, down, up
  static constexpr float kMinReturn = 0;
  static constexpr float kMaxReturn = 1;
  static constexpr int kSymmetries = 8;
  static constexpr int kObservationSize = 49;
  static constexpr std::array<int, 3> kObservationShape = {1, 7, 7};

  static constexpr uint64_t kHoles = [] {
    uint64_t holes = 0;
    for (uint32_t row = 0; row < 7; ++row) {
      for (uint32_t column = 0; column < 7; ++column) {
        const bool corner = (row < 2 || row > 4) && (column < 2 || column > 4);
        holes |= corner ? 0 : bit_at(7 * row + column);
      }
    }
    return holes;
  }();

  int player() const {
    for (uint32_t direction = 0; direction < 4; ++direction) {
      if (jumpers(pegs_, direction) != 0) {
        return 0;
      }
    }
    return kTerminal;
  }
  void legal(ActionBuffer& out) const {
    for (uint32_t direction = 0; direction < 4; ++direction) {
      for_each_bit(jumpers(pegs_, direction),
                   [&](uint32_t from) { out.push(49 * direction + from); });
    }
  }
  void apply(Action a) { pegs_ ^= jump(a); }
  void undo(Action a) { pegs_ ^= jump(a); }
  Returns<1> returns() const { return {value(pegs_)}; }
  uint64_t hash() const { return hash_mix(pegs_); }

  // Uniformly random jumps.
  Returns<1> rollout(Random& rng) const {
    for (uint64_t pegs = pegs_;;) {
      std::array<uint64_t, 4> from;
      std::array<uint32_t, 4> count;
      uint32_t total = 0;
      for (uint32_t direction = 0; direction < 4; ++direction) {
        from[direction] = jumpers(pegs, direction);
        count[direction] = static_cast<uint32_t>(std::popcount(from[direction]));
        total += count[direction];
      }
      if (total == 0) {
        return {value(pegs)};
      }
      uint32_t n = rng.below(total);
      uint32_t direction = 0;
      for (; n >= count[direction]; ++direction) {
        n -= count[direction];
      }
      pegs ^= jump(49 * direction + nth_bit(from[direction], n));
    }
  }

  uint64_t pegs() const { return pegs_; }

  void observe(int, std::span<float> out) const {  // [row][column]
    for (uint32_t i = 0; i < 49; ++i) {
      out[i] = static_cast<float>(pegs_ >> i & 1);
    }
  }
  PegSolitaire symmetry(int k) const {
    PegSolitaire out;
    out.pegs_ = 0;
    for_each_bit(pegs_, [&](uint32_t bit) { out.pegs_ |= bit_at(symmetric_cell(k, bit, 7)); });
    return out;
  }
  static Action symmetry_action(int k, Action a) {
    const uint32_t direction = a / 49;
    const uint32_t axis = ((k & 4) != 0 ? direction ^ 2 : direction) & 2;
    const bool turned = axis == 0 ? (k & 1) != 0 : (k & 2) != 0;
    return 49 * (axis | ((direction & 1) ^ (turned ? 1U : 0U))) + symmetric_cell(k, a % 49, 7);
  }

  // "d2-d4": from and to; letters for columns, numbers for rows from the top.
  std::string action_to_string(Action a) const {
    const uint32_t to = static_cast<uint32_t>(static_cast<int>(a % 49) + 2 * kStep[a / 49]);
    return cell_name(kGrid, static_cast<int>(a % 49 % 7), static_cast<int>(a % 49 / 7)) + "-" +
           cell_name(kGrid, static_cast<int>(to % 7), static_cast<int>(to / 7));
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const { return write_grid(kGrid, cells()); }
  static PegSolitaire from_position(std::string_view text) {
    PegSolitaire out;
    out.pegs_ = 0;
    const std::string_view rest =
        read_grid(kGrid, text, " .o", [&](int column, int row, int symbol) {
          const uint64_t bit = uint64_t{1} << (7 * row + column);
          check((symbol == 0) == ((bit & kHoles) == 0),
                "position: expected spaces in the four corners of 2x2 cells, and nowhere else");
          out.pegs_ |= symbol == 2 ? bit : 0;
        });
    check(rest.empty(), "position: expected nothing behind the board, found \"{}\"", rest);
    check(out.pegs_ != 0, "position: expected at least one peg");
    return out;
  }
  std::string draw() const { return draw_grid(kGrid, cells()); }

 private:
  static constexpr Grid kGrid{.columns = 7, .rows = 7};
  static constexpr std::array<int, 4> kStep = {1, -1, 7, -7};

  static uint64_t shifted(uint64_t bits, int by) { return by > 0 ? bits << by : bits >> -by; }
  // Pegs that may jump; a jump that runs over an edge would land in another row, where the column masks forbid it.
  static uint64_t jumpers(uint64_t pegs, uint32_t direction) {
    const int step = kStep[direction];
    const uint64_t free = kHoles & ~pegs;
    const uint64_t from = pegs & shifted(pegs, -step) & shifted(free, -2 * step);
    return from & kFrom[direction];
  }
  static uint64_t jump(Action a) {
    const uint64_t from = bit_at(a % 49);
    const int step = kStep[a / 49];
    return from | shifted(from, step) | shifted(from, 2 * step);
  }
  static float value(uint64_t pegs) { return static_cast<float>(32 - std::popcount(pegs)) / 31.0F; }
  std::function<char(int, int)> cells() const {
    return [pegs = pegs_](int column, int row) {
      const int bit = 7 * row + column;
      return (kHoles >> bit & 1) == 0 ? ' ' : (pegs >> bit & 1) != 0 ? 'o' : '.';
    };
  }
  // Cells from which two steps in a direction stay in the row.
  static constexpr std::array<uint64_t, 4> kFrom = [] {
    std::array<uint64_t, 4> from{};
    for (uint32_t bit = 0; bit < 49; ++bit) {
      from[0] |= bit % 7 <= 4 ? bit_at(bit) : 0;
      from[1] |= bit % 7 >= 2 ? bit_at(bit) : 0;
      from[2] |= bit_at(bit);
      from[3] |= bit_at(bit);
    }
    return from;
  }();

  uint64_t pegs_ = kHoles & ~bit_at(24);
};

}  // namespace mstrain::mcts
