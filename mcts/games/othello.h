// Othello (Reversi) on boards of 4x4, 6x6 or 8x8: who has more discs at the end wins.
//
// Bitboard: bit 8 * row + column whatever the size, so that all sizes share their shifts; row 0 is the top row, named 1.
// Who cannot move passes (an action of its own); where neither can, the game is over.
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

template <int kSize = 8>
class Othello {
  static_assert(kSize == 4 || kSize == 6 || kSize == 8);

 public:
  static constexpr std::string_view kName = kSize == 8   ? "othello"
                                            : kSize == 6 ? "othello_6x6"
                                                         : "othello_4x4";
  static constexpr int kPlayers = 2;
  static constexpr Action kPass = kSize * kSize;
  static constexpr uint32_t kMaxActions = kSize * kSize + 1;  // a cell, row by row, or pass
  static constexpr int kSymmetries = 8;
  static constexpr int kObservationSize = 2 * kSize * kSize;
  static constexpr std::array<int, 3> kObservationShape = {2, kSize, kSize};

  Othello() {
    constexpr uint32_t kMid = kSize / 2 - 1;
    mine_ = bit_at(8 * kMid + kMid + 1) | bit_at(8 * (kMid + 1) + kMid);
    other_ = bit_at(8 * kMid + kMid) | bit_at(8 * (kMid + 1) + kMid + 1);
    moves_ = moves(mine_, other_);
  }

  int player() const { return over_ ? kTerminal : mover_; }
  void legal(ActionBuffer& out) const {
    if (moves_ == 0) {
      out.push(kPass);
    }
    for_each_bit(moves_, [&](uint32_t bit) { out.push(cell_of(bit)); });
  }
  void apply(Action action) {
    if (action != kPass) {
      const uint64_t disc = bit_at(bit_of(action));
      const uint64_t turned = flips(disc, mine_, other_);
      mine_ |= disc | turned;
      other_ ^= turned;
    }
    std::swap(mine_, other_);
    mover_ ^= 1;
    moves_ = moves(mine_, other_);
    over_ = moves_ == 0 && moves(other_, mine_) == 0;
  }
  Returns<2> returns() const { return result(mine_, other_, mover_); }
  uint64_t hash() const { return hash_combine(hash_combine(mover_, mine_), other_); }

  // Discs of the first player minus those of the second.
  int margin() const {
    const int difference = std::popcount(mine_) - std::popcount(other_);
    return mover_ == 0 ? difference : -difference;
  }

  // Uniformly random moves.
  Returns<2> rollout(Random& rng) const {
    uint64_t mine = mine_;
    uint64_t other = other_;
    int mover = mover_;
    for (int passes = 0; passes < 2;) {
      const uint64_t cells = moves(mine, other);
      if (cells != 0) {
        const uint64_t disc =
            bit_at(nth_bit(cells, rng.below(static_cast<uint32_t>(std::popcount(cells)))));
        const uint64_t turned = flips(disc, mine, other);
        mine |= disc | turned;
        other ^= turned;
        passes = 0;
      } else {
        ++passes;
      }
      std::swap(mine, other);
      mover ^= 1;
    }
    return result(mine, other, mover);
  }

  void observe(int player, std::span<float> out) const {  // [own, other][row][column]
    const uint64_t own = player == mover_ ? mine_ : other_;
    const uint64_t theirs = player == mover_ ? other_ : mine_;
    for (uint32_t cell = 0; cell < kPass; ++cell) {
      out[cell] = static_cast<float>(own >> bit_of(cell) & 1);
      out[kPass + cell] = static_cast<float>(theirs >> bit_of(cell) & 1);
    }
  }
  Othello symmetry(int k) const {
    const auto map = [k](uint64_t bits) {
      uint64_t out = 0;
      for_each_bit(bits,
                   [&](uint32_t bit) { out |= bit_at(bit_of(symmetry_action(k, cell_of(bit)))); });
      return out;
    };
    Othello out = *this;
    out.mine_ = map(mine_);
    out.other_ = map(other_);
    out.moves_ = map(moves_);
    return out;
  }
  static Action symmetry_action(int k, Action a) {
    return a == kPass ? kPass : symmetric_cell(k, a, kSize);
  }

  // "f5d6c3"; black (x) begins; a pass is written "pass".
  std::string action_to_string(Action a) const {
    return a == kPass ? "pass"
                      : cell_name(kGrid, static_cast<int>(a % kSize), static_cast<int>(a / kSize));
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const { return write_grid(kGrid, cells()) + (mover_ == 0 ? " x" : " o"); }
  static Othello from_position(std::string_view text) {
    std::array<uint64_t, 2> discs{};
    const std::string_view rest =
        read_grid(kGrid, text, ".xo", [&](int column, int row, int symbol) {
          if (symbol > 0) {
            discs[static_cast<size_t>(symbol - 1)] |= uint64_t{1} << (8 * row + column);
          }
        });
    Othello out;
    out.mover_ = read_mover(rest, "xo");
    out.mine_ = discs[static_cast<size_t>(out.mover_)];
    out.other_ = discs[static_cast<size_t>(1 - out.mover_)];
    out.moves_ = moves(out.mine_, out.other_);
    out.over_ = out.moves_ == 0 && moves(out.other_, out.mine_) == 0;
    return out;
  }
  std::string draw() const {
    return draw_grid(kGrid, cells()) + fmt::format("x {}  o {}\n",
                                                   std::popcount(mover_ == 0 ? mine_ : other_),
                                                   std::popcount(mover_ == 0 ? other_ : mine_));
  }

 private:
  static constexpr Grid kGrid{.columns = kSize, .rows = kSize};
  static constexpr uint64_t kBoard = [] {
    uint64_t board = 0;
    for (uint32_t cell = 0; cell < kPass; ++cell) {
      board |= bit_at(cell / kSize * 8 + cell % kSize);
    }
    return board;
  }();
  // Where a run may continue sideways: on the full board a shift leads from one edge to the other, below it into columns
  // that are never filled.
  static constexpr uint64_t kInner = kSize == 8 ? 0x7e7e7e7e7e7e7e7eU : kBoard;

  static constexpr uint32_t bit_of(uint32_t cell) { return cell / kSize * 8 + cell % kSize; }
  static constexpr uint32_t cell_of(uint32_t bit) { return bit / 8 * kSize + bit % 8; }

  // Calls f(shift, cells that a run may cross) for the eight directions; shift moves a set one step.
  template <class F>
  static void for_each_direction(uint64_t other, F f) {
    const uint64_t inner = other & kInner;
    f([](uint64_t b) { return b << 1; }, inner);
    f([](uint64_t b) { return b >> 1; }, inner);
    f([](uint64_t b) { return b << 7; }, inner);
    f([](uint64_t b) { return b >> 7; }, inner);
    f([](uint64_t b) { return b << 9; }, inner);
    f([](uint64_t b) { return b >> 9; }, inner);
    f([](uint64_t b) { return b << 8; }, other);
    f([](uint64_t b) { return b >> 8; }, other);
  }
  // The other's discs that lie in unbroken lines from `from`, in one direction.
  template <class Shift>
  static uint64_t run(uint64_t from, uint64_t crossed, Shift shift) {
    uint64_t cells = shift(from) & crossed;
    for (int step = 0; step < kSize - 3; ++step) {
      cells |= shift(cells) & crossed;
    }
    return cells;
  }
  static uint64_t moves(uint64_t mine, uint64_t other) {
    uint64_t out = 0;
    for_each_direction(
        other, [&](auto shift, uint64_t crossed) { out |= shift(run(mine, crossed, shift)); });
    return out & kBoard & ~(mine | other);
  }
  static uint64_t flips(uint64_t disc, uint64_t mine, uint64_t other) {
    uint64_t out = 0;
    for_each_direction(other, [&](auto shift, uint64_t crossed) {
      const uint64_t cells = run(disc, crossed, shift);
      out |= (shift(cells) & mine) != 0 ? cells : 0;
    });
    return out;
  }
  static Returns<2> result(uint64_t mine, uint64_t other, int mover) {
    const int difference = std::popcount(mine) - std::popcount(other);
    const float x = difference == 0 ? 0.0F : (difference > 0) == (mover == 0) ? 1.0F : -1.0F;
    return {x, -x};
  }
  std::function<char(int, int)> cells() const {
    return
        [x = mover_ == 0 ? mine_ : other_, o = mover_ == 0 ? other_ : mine_](int column, int row) {
          const int bit = 8 * row + column;
          return (x >> bit & 1) != 0 ? 'x' : (o >> bit & 1) != 0 ? 'o' : '.';
        };
  }

  uint64_t mine_ = 0;  // discs of the player to move
  uint64_t other_ = 0;
  uint64_t moves_ = 0;  // cells where the mover may play
  int mover_ = 0;
  bool over_ = false;
};

}  // namespace mstrain::mcts
