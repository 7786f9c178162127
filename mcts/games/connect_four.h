// Connect four: seven columns, six rows, four in a line win.
//
// Bitboard: bit 7 * column + row, row 0 at the bottom; the seventh bit of each column stays empty, so that shifts by 1, 6,
// 7 and 8 never join cells of different lines (J. Tromp's layout, "Fhourstones").
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

class ConnectFour {
 public:
  static constexpr std::string_view kName = "connect_four";
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kMaxActions = 7;  // a column
  static constexpr int kSymmetries = 2;       // left and right swapped
  static constexpr int kObservationSize = 2 * 6 * 7;
  static constexpr std::array<int, 3> kObservationShape = {2, 6, 7};

  static constexpr uint64_t kBottom = 0x0040810204081U;  // the lowest cell of each column
  static constexpr uint64_t kTop = kBottom << 5;
  static constexpr uint64_t kBoard = kBottom * 0x3f;

  static constexpr bool has_four(uint64_t stones) {
    const uint64_t row = stones & (stones >> 7);
    const uint64_t down = stones & (stones >> 6);
    const uint64_t up = stones & (stones >> 8);
    const uint64_t column = stones & (stones >> 1);
    return ((row & (row >> 14)) | (down & (down >> 12)) | (up & (up >> 16)) |
            (column & (column >> 2))) != 0;
  }

  int player() const { return won_ || plies_ == 42 ? kTerminal : plies_ & 1; }
  void legal(ActionBuffer& out) const {
    for (uint32_t column = 0; column < 7; ++column) {
      if ((filled_ & (kTop & (uint64_t{0x7f} << (7 * column)))) == 0) {
        out.push(column);
      }
    }
  }
  void apply(Action column) {
    const uint64_t filled = filled_ | (filled_ + (uint64_t{1} << (7 * column)));
    const uint64_t moved = mine_ | (filled ^ filled_);
    won_ = has_four(moved);
    mine_ = moved ^ filled;
    filled_ = filled;
    ++plies_;
  }
  void undo(Action column) {
    const uint64_t cells = filled_ & (uint64_t{0x3f} << (7 * column));
    const uint64_t top = cells ^ (cells >> 1 & cells);  // the highest filled cell
    const uint64_t before = filled_ ^ top;
    mine_ = (mine_ ^ filled_) & before;
    filled_ = before;
    won_ = false;
    --plies_;
  }
  Returns<2> returns() const {
    const float last = won_ ? 1.0F : 0.0F;  // for who moved last
    return (plies_ & 1) != 0 ? Returns<2>{last, -last} : Returns<2>{-last, last};
  }
  // Each column holds 2^height + the mover's stones, which tells both.
  uint64_t hash() const { return hash_mix(mine_ + filled_ + kBottom); }

  Returns<2> rollout(Random& rng) const;

  uint64_t mine() const { return mine_; }      // stones of the player to move
  uint64_t filled() const { return filled_; }  // stones of both
  int plies() const { return plies_; }

  void observe(int player,
               std::span<float> out) const {  // [own, other][row from the bottom][column]
    const uint64_t own = player == (plies_ & 1) ? mine_ : mine_ ^ filled_;
    for (size_t i = 0; i < 42; ++i) {
      const size_t bit = 7 * (i % 7) + i / 7;
      out[i] = static_cast<float>(own >> bit & 1);
      out[42 + i] = static_cast<float>((filled_ ^ own) >> bit & 1);
    }
  }
  ConnectFour symmetry(int k) const {
    ConnectFour out = *this;
    if (k == 1) {
      out.mine_ = mirror(mine_);
      out.filled_ = mirror(filled_);
    }
    return out;
  }
  static Action symmetry_action(int k, Action column) { return k == 1 ? 6 - column : column; }

  // One-based columns, as "4453".
  std::string action_to_string(Action column) const { return std::to_string(column + 1); }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const { return write_grid(kGrid, cells()) + (plies_ & 1 ? " o" : " x"); }
  static ConnectFour from_position(std::string_view text);
  std::string draw() const;

 private:
  static constexpr Grid kGrid{.columns = 7, .rows = 6, .first_row_on_top = false};

  static constexpr uint64_t mirror(uint64_t stones) {
    uint64_t out = 0;
    for (int column = 0; column < 7; ++column) {
      out |= (stones >> (7 * column) & 0x3f) << (7 * (6 - column));
    }
    return out;
  }
  std::function<char(int, int)> cells() const {
    const uint64_t first = (plies_ & 1) != 0 ? mine_ ^ filled_ : mine_;
    return [first, filled = filled_](int column, int row) {
      const int bit = 7 * column + row;
      return (filled >> bit & 1) == 0 ? '.' : (first >> bit & 1) != 0 ? 'x' : 'o';
    };
  }

  uint64_t mine_ = 0;
  uint64_t filled_ = 0;
  uint8_t plies_ = 0;
  bool won_ = false;  // by who moved last
};

// Uniformly random moves. Four plies are played between two tests for a line, which then looks back for the first one: a
// test costs more than a move. One 64-bit draw serves four moves; the bias of each is below 7 / 2^16.
inline Returns<2> ConnectFour::rollout(Random& rng) const {
  std::array<uint64_t, 8> next{};  // the free cell of each open column; 0 behind the last
  uint32_t open = 0;
  const uint64_t playable = (filled_ + kBottom) & kBoard;
  for (int column = 0; column < 7; ++column) {
    const uint64_t cell = playable & (uint64_t{0x3f} << (7 * column));
    next[open] = cell;
    open += cell != 0 ? 1 : 0;
  }
  const auto drop = [&](uint64_t bits) -> uint64_t {
    const size_t i = (bits & 0xffff) * open >> 16;
    const uint64_t cell = next[i];
    if ((cell & kTop) != 0) [[unlikely]] {
      next[i] = next[--open];
      next[open] = 0;
    } else {
      next[i] = cell << 1;
    }
    return cell;
  };
  const auto result = [this](bool mover_wins) {
    const float x = mover_wins == ((plies_ & 1) == 0) ? 1.0F : -1.0F;
    return Returns<2>{x, -x};
  };
  uint64_t mine = mine_;
  uint64_t other = mine_ ^ filled_;
  while (open != 0) {
    const uint64_t bits = rng.next_u64();
    const uint64_t mine_1 = mine | drop(bits);
    const uint64_t other_1 = other | drop(bits >> 16);
    mine = mine_1 | drop(bits >> 32);
    other = other_1 | drop(bits >> 48);
    const bool mine_wins = has_four(mine);
    if (mine_wins || has_four(other)) {
      return result(has_four(mine_1) || (!has_four(other_1) && mine_wins));
    }
  }
  return {0, 0};
}

inline ConnectFour ConnectFour::from_position(std::string_view text) {
  std::array<uint64_t, 2> stones{};
  std::array<int, 2> count{};
  const std::string_view rest = read_grid(kGrid, text, ".xo", [&](int column, int row, int symbol) {
    if (symbol > 0) {
      stones[static_cast<size_t>(symbol - 1)] |= uint64_t{1} << (7 * column + row);
      ++count[static_cast<size_t>(symbol - 1)];
    }
  });
  const int mover = read_mover(rest, "xo");
  ConnectFour out;
  out.filled_ = stones[0] | stones[1];
  out.mine_ = stones[static_cast<size_t>(mover)];
  out.plies_ = static_cast<uint8_t>(count[0] + count[1]);
  out.won_ = has_four(out.mine_ ^ out.filled_);
  check((out.filled_ & ~(out.filled_ << 1 | kBottom)) == 0, "position: a stone hangs in the air");
  check(count[0] - count[1] == mover, "position: {} x and {} o, but {} is to move", count[0],
        count[1], "xo"[mover]);
  check(!has_four(out.mine_), "position: {} has four in a line and is to move", "xo"[mover]);
  return out;
}

inline std::string ConnectFour::draw() const {
  std::string out;
  const auto cell = cells();
  for (int row = 5; row >= 0; --row) {
    out += '|';
    for (int column = 0; column < 7; ++column) {
      out += ' ';
      out += cell(column, row);
    }
    out += " |\n";
  }
  return out + "  1 2 3 4 5 6 7\n";
}

}  // namespace mstrain::mcts
