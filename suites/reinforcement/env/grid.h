// Worlds on a grid: walls, places, moves and their picture.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "suites/reinforcement/env/canvas.h"

namespace mstrain::reinforcement {

// A rectangle of characters: '#' walls, '.' floor; a world gives others a meaning of its own.
class GridMap {
 public:
  // Lines of equal length, one after the other.
  GridMap(std::string_view cells, int64_t width) : cells_(cells), width_(width) {}

  int64_t width() const { return width_; }
  int64_t height() const { return static_cast<int64_t>(cells_.size()) / width_; }
  int64_t size() const { return static_cast<int64_t>(cells_.size()); }
  char at(int64_t cell) const { return cells_[static_cast<size_t>(cell)]; }
  int64_t find(char what) const { return static_cast<int64_t>(cells_.find(what)); }
  std::vector<int64_t> all(char what) const;

  // Up, right, down, left: 0 … 3; anything else stays. A wall or the border keeps one where one is.
  int64_t moved(int64_t cell, int64_t direction) const;

  // The walls and the floor, a square of kCell pixels for each cell; then whatever else there is, cell by cell.
  static constexpr int64_t kCell = 32;
  Canvas draw() const;
  Point centre(int64_t cell) const;
  void fill(Canvas& canvas, int64_t cell, Colour colour) const;

 private:
  std::string_view cells_;
  int64_t width_;
};

}  // namespace mstrain::reinforcement
