// What the games share when they read and write text: cells, boards, moves. None of it runs inside a search.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "mcts/game.h"

namespace mstrain::mcts {

// A rectangular board. Cells are (column, row), both from 0; row 0 is the one named 1.
struct Grid {
  int columns = 0;
  int rows = 0;
  bool first_row_on_top = true;
  bool skip_i = false;  // Go's columns have no letter i
  int slant = 0;        // each drawn row begins so many characters further right
};

// "c4": the column's letter and the row's number.
std::string cell_name(const Grid& grid, int column, int row);

// Several lines with the columns' letters and the rows' numbers around the cells.
std::string draw_grid(const Grid& grid, const std::function<char(int column, int row)>& cell);

// Rows from the top, separated by slashes: "x.o/.x./..o".
std::string write_grid(const Grid& grid, const std::function<char(int column, int row)>& cell);

// Reads what write_grid wrote, calling set with the index of each cell's character in `symbols`, and returns what stands
// behind the board without the space between. Throws Error that says what is expected.
std::string_view read_grid(const Grid& grid, std::string_view text, std::string_view symbols,
                           const std::function<void(int column, int row, int symbol)>& set);

// The cell that takes the place of `cell` under element `k` of the eight symmetries of a square board whose cells are
// numbered row by row: bit 0 swaps left and right, bit 1 top and bottom, bit 2 (first) rows and columns.
constexpr uint32_t symmetric_cell(int k, uint32_t cell, uint32_t size) {
  uint32_t row = cell / size;
  uint32_t column = cell % size;
  if ((k & 4) != 0) {
    const uint32_t swapped = row;
    row = column;
    column = swapped;
  }
  return ((k & 2) != 0 ? size - 1 - row : row) * size + ((k & 1) != 0 ? size - 1 - column : column);
}

// The index of the single character `text` in `symbols`; throws Error "position: expected the player to move ...".
int read_mover(std::string_view text, std::string_view symbols);

// The index of `text` in `names`, ignoring case; throws Error that names the nearest and lists what is legal.
size_t find_action(std::string_view text, std::span<const std::string> names);

// The index of the longest of `names` that `text` begins with, ignoring case; names.size() where there is none.
size_t longest_prefix(std::string_view text, std::span<const std::string> names);

// Legal actions, or the outcomes where it is chance's turn.
template <GameState S>
std::vector<ActionOf<S>> actions_of(const S& state) {
  std::vector<ActionOf<S>> out;
  const int player = state.player();
  if (player >= 0) {
    ActionBufferOf<S> actions;
    state.legal(actions);
    out.assign(actions.begin(), actions.end());
  } else if (player == kChance) {
    if constexpr (HasChance<S>) {
      ChanceBufferOf<S> outcomes;
      state.chance(outcomes);
      for (const auto& outcome : outcomes) {
        out.push_back(outcome.action);
      }
    }
  }
  return out;
}

template <GameState S>
std::vector<std::string> action_names(const S& state, std::span<const ActionOf<S>> actions) {
  std::vector<std::string> names;
  for (const auto& action : actions) {
    names.push_back(action_text(state, action));
  }
  return names;
}

// parse_action of a game whose actions are few enough to list.
template <GameState S>
ActionOf<S> parse_listed(const S& state, std::string_view text) {
  const auto actions = actions_of(state);
  return actions[find_action(text, action_names(state, std::span(actions)))];
}

// Plays the moves of `text` from `state`: actions in the game's notation, one after the other, with or without spaces or
// commas between ("4453", "f5d6 c3"). Outcomes of chance are moves too. `played`, where given, gets each action.
// Throws Error that names the place, what was found there and what is legal.
template <GameState S>
S play_moves(S state, std::string_view text, std::vector<ActionOf<S>>* played = nullptr) {
  size_t at = 0;
  for (;;) {
    while (at < text.size() && (text[at] == ' ' || text[at] == ',')) {
      ++at;
    }
    if (at == text.size()) {
      return state;
    }
    const auto actions = actions_of(state);
    const auto names = action_names(state, std::span(actions));
    const size_t found = longest_prefix(text.substr(at), names);
    if (found == names.size()) {
      const std::string_view word = text.substr(at, text.find_first_of(" ,", at) - at);
      check(!names.empty(), "position: \"{}\" at character {} comes after the end of the game",
            word, at + 1);
      try {
        find_action(word, names);
      } catch (const Error& error) {
        fail("position: character {}: {}", at + 1, error.what());
      }
    }
    state.apply(actions[found]);
    if (played != nullptr) {
      played->push_back(actions[found]);
    }
    at += names[found].size();
  }
}

}  // namespace mstrain::mcts
