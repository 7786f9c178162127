#include "suites/reinforcement/env/grid.h"

namespace mstrain::reinforcement {

std::vector<int64_t> GridMap::all(char what) const {
  std::vector<int64_t> found;
  for (int64_t cell = 0; cell < size(); ++cell) {
    if (at(cell) == what) {
      found.push_back(cell);
    }
  }
  return found;
}

int64_t GridMap::moved(int64_t cell, int64_t direction) const {
  const int64_t row = cell / width_, column = cell % width_;
  constexpr int64_t kRows[] = {-1, 0, 1, 0}, kColumns[] = {0, 1, 0, -1};
  if (direction < 0 || direction > 3) {
    return cell;
  }
  const int64_t to_row = row + kRows[direction], to_column = column + kColumns[direction];
  if (to_row < 0 || to_row >= height() || to_column < 0 || to_column >= width_) {
    return cell;
  }
  const int64_t to = to_row * width_ + to_column;
  return at(to) == '#' ? cell : to;
}

Canvas GridMap::draw() const {
  Canvas canvas(width_ * kCell, height() * kCell);
  for (int64_t cell = 0; cell < size(); ++cell) {
    if (at(cell) == '#') {
      fill(canvas, cell, kInk);
    }
  }
  return canvas;
}

Point GridMap::centre(int64_t cell) const {
  return {(static_cast<double>(cell % width_) + 0.5) * kCell,
          (static_cast<double>(cell / width_) + 0.5) * kCell};
}

void GridMap::fill(Canvas& canvas, int64_t cell, Colour colour) const {
  const Point middle = centre(cell);
  const double half = static_cast<double>(kCell) / 2;
  canvas.rectangle({middle.x - half, middle.y - half}, {middle.x + half, middle.y + half}, colour);
}

}  // namespace mstrain::reinforcement
