// Nim with one heap, the game of docs/adding_a_game.md, which shows this file from the line below on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/text.h"

// Take one, two or three stones; who takes the last one wins.
struct Nim {
  static constexpr std::string_view kName = "nim";
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kMaxActions = 4;  // how many stones are taken

  int stones = 21;
  int mover = 0;

  int player() const { return stones == 0 ? mstrain::mcts::kTerminal : mover; }
  void legal(mstrain::mcts::ActionBuffer& out) const {
    for (uint32_t n = 1; n <= 3 && static_cast<int>(n) <= stones; ++n) {
      out.push(n);
    }
  }
  void apply(mstrain::mcts::Action n) {
    stones -= static_cast<int>(n);
    mover = 1 - mover;
  }
  mstrain::mcts::Returns<2> returns() const {  // who moved last has won
    return mover == 1 ? mstrain::mcts::Returns<2>{1, -1} : mstrain::mcts::Returns<2>{-1, 1};
  }

  // Optional from here on.
  void undo(mstrain::mcts::Action n) {
    stones += static_cast<int>(n);
    mover = 1 - mover;
  }
  uint64_t hash() const { return mstrain::hash_mix(static_cast<uint64_t>(2 * stones + mover)); }
  std::string action_to_string(mstrain::mcts::Action n) const { return std::to_string(n); }
  mstrain::mcts::Action parse_action(std::string_view text) const {
    return mstrain::mcts::parse_listed(*this, text);
  }
  std::string position() const {
    return std::string(static_cast<size_t>(stones), '|') + (mover == 0 ? "x" : "o");
  }
  static Nim from_position(std::string_view text) {
    mstrain::check(!text.empty() && (text.back() == 'x' || text.back() == 'o') &&
                       text.find_first_not_of('|') == text.size() - 1,
                   "position: expected a bar for each stone, then x or o, found \"{}\"", text);
    return {.stones = static_cast<int>(text.size()) - 1, .mover = text.back() == 'x' ? 0 : 1};
  }
  std::string draw() const { return position() + "\n"; }
};
