#include "mcts/games/text.h"

#include <algorithm>
#include <cctype>

namespace mstrain::mcts {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

char column_letter(const Grid& grid, int column) {
  return static_cast<char>('a' + column + (grid.skip_i && column >= 8 ? 1 : 0));
}

int row_from_top(const Grid& grid, int line) {
  return grid.first_row_on_top ? line : grid.rows - 1 - line;
}

bool begins_with(std::string_view text, std::string_view name) {
  return text.size() >= name.size() &&
         std::equal(name.begin(), name.end(), text.begin(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

// At most 40 names, so that an error stays readable.
std::string list(std::span<const std::string> names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 40; ++i) {
    out += (i == 0 ? "" : " ") + names[i];
  }
  return names.size() > 40 ? out + fmt::format(" and {} more", names.size() - 40) : out;
}

}  // namespace

std::string cell_name(const Grid& grid, int column, int row) {
  return fmt::format("{}{}", column_letter(grid, column), row + 1);
}

std::string draw_grid(const Grid& grid, const std::function<char(int, int)>& cell) {
  std::string letters = "   ";
  for (int column = 0; column < grid.columns; ++column) {
    letters += ' ';
    letters += column_letter(grid, column);
  }
  std::string out = letters + "\n";
  for (int line = 0; line < grid.rows; ++line) {
    const int row = row_from_top(grid, line);
    out += std::string(static_cast<size_t>(line * grid.slant), ' ') + fmt::format("{:3}", row + 1);
    for (int column = 0; column < grid.columns; ++column) {
      out += ' ';
      out += cell(column, row);
    }
    out += fmt::format(" {}\n", row + 1);
  }
  return out + std::string(static_cast<size_t>(grid.rows * grid.slant), ' ') + letters + "\n";
}

std::string write_grid(const Grid& grid, const std::function<char(int, int)>& cell) {
  std::string out;
  for (int line = 0; line < grid.rows; ++line) {
    if (line > 0) {
      out += '/';
    }
    for (int column = 0; column < grid.columns; ++column) {
      out += cell(column, row_from_top(grid, line));
    }
  }
  return out;
}

std::string_view read_grid(const Grid& grid, std::string_view text, std::string_view symbols,
                           const std::function<void(int, int, int)>& set) {
  const auto bad = [&](size_t at) {
    fail("position: expected {} rows of {} cells from \"{}\" separated by slashes, found {}",
         grid.rows, grid.columns, symbols,
         at < text.size() ? fmt::format("'{}' at character {}", text[at], at + 1) : "its end");
  };
  size_t at = 0;
  for (int line = 0; line < grid.rows; ++line) {
    if (line > 0 && (at >= text.size() || text[at++] != '/')) {
      bad(at - (at < text.size() || at > 0 ? 1 : 0));
    }
    for (int column = 0; column < grid.columns; ++column, ++at) {
      const size_t symbol =
          at < text.size() ? symbols.find(lower(text[at])) : std::string_view::npos;
      if (symbol == std::string_view::npos) {
        bad(at);
      }
      set(column, row_from_top(grid, line), static_cast<int>(symbol));
    }
  }
  if (at < text.size() && text[at++] != ' ') {
    bad(at - 1);
  }
  return text.substr(at);
}

int read_mover(std::string_view text, std::string_view symbols) {
  const size_t found = text.size() == 1 ? symbols.find(lower(text[0])) : std::string_view::npos;
  check(found != std::string_view::npos,
        "position: expected the player to move, one of \"{}\", behind the board, found \"{}\"",
        symbols, text);
  return static_cast<int>(found);
}

size_t find_action(std::string_view text, std::span<const std::string> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].size() == text.size() && begins_with(text, names[i])) {
      return i;
    }
  }
  fail("\"{}\" is no legal action here{}; expected one of: {}", text, did_you_mean(text, names),
       names.empty() ? "none, the game is over" : list(names));
}

size_t longest_prefix(std::string_view text, std::span<const std::string> names) {
  size_t best = names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty() && begins_with(text, names[i]) &&
        (best == names.size() || names[i].size() > names[best].size())) {
      best = i;
    }
  }
  return best;
}

}  // namespace mstrain::mcts
