// 2048: one player slides the tiles of a 4x4 board, chance adds a 2 (nine times in ten) or a 4 on a free cell.
//
// The board is 16 nibbles, each the power of two of a tile; a slide looks each row up in a table (the layout of R. Xiao's
// "2048 AI", nneonneo/2048-ai). A merge pays the new tile's value / 1024, so that the steps of random play are near one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/bits.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

class Game2048 {
 public:
  static constexpr std::string_view kName = "2048";
  static constexpr int kPlayers = 1;
  // 0-3: left, right, up, down; 4 + 2 * cell: a 2 appears, 5 + 2 * cell: a 4 (cells row by row from the top left).
  static constexpr uint32_t kMaxActions = 4 + 2 * 16;
  static constexpr float kMinReturn = 0;
  static constexpr float kMaxReturn = 4096;  // above what any game can pay
  static constexpr int kSymmetries = 8;
  static constexpr int kObservationSize = 16 * 16;
  static constexpr std::array<int, 3> kObservationShape = {16, 4, 4};
  static constexpr uint32_t kSymbols = 16;  // powers of two, 0: free
  static constexpr float kPoint = 1.0F / 1024;

  int player() const { return to_add_ > 0 ? kChance : movable_ ? 0 : kTerminal; }
  void legal(ActionBuffer& out) const {
    for (Action move = 0; move < 4; ++move) {
      if (slid(board_, move) != board_) {
        out.push(move);
      }
    }
  }
  void apply(Action action) {
    paid_ = 0;
    if (action < 4) {
      paid_ = points(board_, action);
      board_ = slid(board_, action);
      to_add_ = 1;
    } else {
      const uint32_t cell = (action - 4) / 2;
      board_ |= uint64_t{1 + (action & 1)} << (4 * cell);
      --to_add_;
      movable_ = can_move(board_);
    }
  }
  Returns<1> rewards() const { return {static_cast<float>(paid_) * kPoint}; }
  Returns<1> returns() const { return {0}; }
  void chance(ChanceBuffer& out) const {
    const uint64_t free = empty(board_);
    const float share = 1.0F / static_cast<float>(std::popcount(free));
    for_each_bit(free, [&](uint32_t bit) {
      out.push({4 + bit / 2, 0.9F * share});
      out.push({5 + bit / 2, 0.1F * share});
    });
  }
  Action sample_chance(Random& rng) const { return 4 + random_tile(board_, rng); }
  uint64_t hash() const { return hash_combine(static_cast<uint64_t>(to_add_), board_); }

  // Uniformly random moves to the end of the game.
  Returns<1> rollout(Random& rng) const {
    uint64_t board = board_;
    uint32_t total = 0;
    for (int left = to_add_; left > 0; --left) {
      board = with_tile(board, random_tile(board, rng));
    }
    for (;;) {
      std::array<uint64_t, 4> next;
      std::array<uint8_t, 4> moves;
      uint32_t count = 0;
      for (Action move = 0; move < 4; ++move) {
        next[move] = slid(board, move);
        moves[count] = static_cast<uint8_t>(move);
        count += next[move] != board ? 1 : 0;
      }
      if (count == 0) {
        return {static_cast<float>(total) * kPoint};
      }
      const Action move = moves[rng.below(count)];
      total += points(board, move);
      board = with_tile(next[move], random_tile(next[move], rng));
    }
  }

  int tile(uint32_t cell) const {  // its value; 0 where free
    const auto power = board_ >> (4 * cell) & 15;
    return power == 0 ? 0 : 1 << power;
  }
  void observe(int, std::span<float> out) const {  // [power][row][column], one-hot
    std::fill(out.begin(), out.end(), 0.0F);
    for (uint32_t cell = 0; cell < 16; ++cell) {
      out[(board_ >> (4 * cell) & 15) * 16 + cell] = 1;
    }
  }
  void cells(std::span<uint8_t> out) const {
    for (uint32_t i = 0; i < 16; ++i) {
      out[i] = static_cast<uint8_t>(board_ >> (4 * i) & 15);
    }
  }
  static Game2048 from_cells(std::span<const uint8_t> cells) {
    Game2048 out;
    out.board_ = 0;
    out.to_add_ = 0;
    for (uint32_t i = 0; i < 16; ++i) {
      out.board_ |= uint64_t{cells[i]} << (4 * i);
    }
    out.movable_ = can_move(out.board_);
    return out;
  }
  Game2048 symmetry(int k) const {
    Game2048 out = *this;
    out.board_ = 0;
    for (uint32_t cell = 0; cell < 16; ++cell) {
      out.board_ |= (board_ >> (4 * cell) & 15) << (4 * symmetric_cell(k, cell, 4));
    }
    return out;
  }
  static Action symmetry_action(int k, Action a) {
    if (a >= 4) {
      return 4 + 2 * symmetric_cell(k, (a - 4) / 2, 4) + (a & 1);
    }
    // Moves 0, 1 run along a row and 2, 3 along a column; the low bit is the direction.
    const Action axis = ((k & 4) != 0 ? a ^ 2 : a) & 2;
    const bool turned = axis == 0 ? (k & 1) != 0 : (k & 2) != 0;
    return axis | ((a & 1) ^ (turned ? 1U : 0U));
  }

  // Moves are "left", "right", "up", "down"; a new tile is its cell and value, as "b3=2".
  std::string action_to_string(Action a) const {
    static constexpr std::array<const char*, 4> kMoves = {"left", "right", "up", "down"};
    return a < 4 ? kMoves[a]
                 : fmt::format("{}={}",
                               cell_name(kGrid, static_cast<int>((a - 4) / 2 % 4),
                                         static_cast<int>((a - 4) / 8)),
                               (a & 1) != 0 ? 4 : 2);
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  // Tiles as hexadecimal powers of two, then the number of tiles that chance adds before the next move.
  std::string position() const {
    return write_grid(kGrid,
                      [this](int column, int row) {
                        return ".123456789abcdef"[board_ >> (4 * (4 * row + column)) & 15];
                      }) +
           " " + std::to_string(to_add_);
  }
  static Game2048 from_position(std::string_view text) {
    Game2048 out;
    out.board_ = 0;
    const std::string_view rest =
        read_grid(kGrid, text, ".123456789abcdef", [&](int column, int row, int symbol) {
          out.board_ |= static_cast<uint64_t>(symbol) << (4 * (4 * row + column));
        });
    check(rest == "0" || rest == "1" || rest == "2",
          "position: expected the number of tiles to add, 0 to 2, behind the board, found \"{}\"",
          rest);
    out.to_add_ = rest[0] - '0';
    check(std::popcount(empty(out.board_)) >= out.to_add_,
          "position: {} tiles to add on a full board", out.to_add_);
    out.movable_ = can_move(out.board_);
    return out;
  }
  std::string draw() const {
    std::string out;
    for (uint32_t cell = 0; cell < 16; ++cell) {
      out += tile(cell) == 0 ? fmt::format("{:>7}", '.') : fmt::format("{:7}", tile(cell));
      out += cell % 4 == 3 ? "\n" : "";
    }
    return out;
  }

 private:
  static constexpr Grid kGrid{.columns = 4, .rows = 4};

  struct Slide {
    uint16_t left;  // the row after sliding to its low end
    uint16_t right;
    uint32_t points;  // of either
  };
  static const std::vector<Slide>& slides() {
    static const std::vector<Slide> table = make_slides();
    return table;
  }
  static std::vector<Slide> make_slides() {
    std::vector<Slide> table(65536);
    const auto slide = [](std::array<uint32_t, 4> row, uint32_t& points) {
      std::array<uint32_t, 4> out{};
      size_t n = 0;
      bool merged = true;  // the last tile may not merge again
      for (const uint32_t power : row) {
        if (power == 0) {
          continue;
        }
        if (!merged && out[n - 1] == power && power < 15) {
          points += 2U << power;
          ++out[n - 1];
          merged = true;
        } else {
          out[n++] = power;
          merged = false;
        }
      }
      return out;
    };
    for (uint32_t i = 0; i < 65536; ++i) {
      const std::array<uint32_t, 4> row = {i & 15, i >> 4 & 15, i >> 8 & 15, i >> 12};
      uint32_t points = 0;
      uint32_t again = 0;
      const auto l = slide(row, points);
      const auto r = slide({row[3], row[2], row[1], row[0]}, again);
      table[i] = {static_cast<uint16_t>(l[0] | l[1] << 4 | l[2] << 8 | l[3] << 12),
                  static_cast<uint16_t>(r[3] | r[2] << 4 | r[1] << 8 | r[0] << 12), points};
    }
    return table;
  }
  static uint64_t transposed(uint64_t b) {
    const uint64_t near = (b & 0xf0f00f0ff0f00f0fU) | (b & 0x0000f0f00000f0f0U) << 12 |
                          (b & 0x0f0f00000f0f0000U) >> 12;
    return (near & 0xff00ff0000ff00ffU) | (near & 0x00000000ff00ff00U) << 24 |
           (near & 0x00ff00ff00000000U) >> 24;
  }
  static uint64_t slid(uint64_t board, Action move) {
    const auto& table = slides();
    const uint64_t rows = move >= 2 ? transposed(board) : board;
    uint64_t out = 0;
    for (uint32_t shift = 0; shift < 64; shift += 16) {
      const Slide& row = table[rows >> shift & 0xffff];
      out |= static_cast<uint64_t>((move & 1) != 0 ? row.right : row.left) << shift;
    }
    return move >= 2 ? transposed(out) : out;
  }
  static uint32_t points(uint64_t board, Action move) {
    const auto& table = slides();
    const uint64_t rows = move >= 2 ? transposed(board) : board;
    return table[rows & 0xffff].points + table[rows >> 16 & 0xffff].points +
           table[rows >> 32 & 0xffff].points + table[rows >> 48].points;
  }
  // The lowest bit of each free cell's nibble.
  static uint64_t empty(uint64_t board) {
    board |= board >> 2;
    board |= board >> 1;
    return ~board & 0x1111111111111111U;
  }
  static bool can_move(uint64_t board) {
    for (Action move = 0; move < 4; ++move) {
      if (slid(board, move) != board) {
        return true;
      }
    }
    return false;
  }
  // 2 * cell, plus 1 for a 4.
  static uint32_t random_tile(uint64_t board, Random& rng) {
    const uint64_t free = empty(board);
    const uint32_t n = rng.below(static_cast<uint32_t>(std::popcount(free)) * 10);
    return nth_bit(free, n / 10) / 2 + (n % 10 == 0 ? 1 : 0);
  }
  static uint64_t with_tile(uint64_t board, uint32_t tile) {
    return board | uint64_t{1 + (tile & 1)} << (4 * (tile / 2));
  }

  uint64_t board_ = 0;
  int to_add_ = 2;
  uint32_t paid_ = 0;
  bool movable_ = true;
};

}  // namespace mstrain::mcts
