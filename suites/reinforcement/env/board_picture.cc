#include "suites/reinforcement/env/board_picture.h"

#include "mcts/games/connect_four.h"

namespace mstrain::reinforcement {

BoardPicture::BoardPicture(const mcts::play::Playable& game, std::string_view name)
    : stands_on_row_0_(name == mcts::ConnectFour::kName) {
  const auto [planes, rows, columns] = game.observation_shape();
  planes_ = planes;
  rows_ = rows;
  columns_ = columns;
}

int BoardPicture::stones() const { return planes_ == 3 ? 2 : planes_; }

Point BoardPicture::centre(int64_t cell) const {
  const int64_t row = stands_on_row_0_ ? rows_ - 1 - cell / columns_ : cell / columns_;
  return {(static_cast<double>(cell % columns_) + 0.5) * kCell,
          (static_cast<double>(row) + 0.5) * kCell};
}

Canvas BoardPicture::draw(std::span<const float> seen) const {
  constexpr double kHalf = kCell / 2;
  constexpr double kStone = 12;
  const auto edge = static_cast<int64_t>(kCell);
  Canvas canvas(columns_ * edge, rows_ * edge, kGrey);
  for (int64_t cell = 0; cell < cells(); ++cell) {
    const auto [x, y] = centre(cell);
    canvas.rectangle({x - kHalf + 1, y - kHalf + 1}, {x + kHalf - 1, y + kHalf - 1}, kWhite);
    for (int plane = 0; plane < stones(); ++plane) {
      if (seen[static_cast<size_t>(plane * cells() + cell)] <= 0.5F) {
        continue;
      }
      const auto shade = static_cast<uint8_t>(235 - 220 * plane / planes_);
      canvas.disc({x, y}, kStone,
                  planes_ > 3  ? Colour{shade, static_cast<uint8_t>(shade / 2), 40}
                  : plane == 0 ? kBlue
                               : kAmber);
    }
  }
  return canvas;
}

bool BoardPicture::is_taken(std::span<const float> seen, int64_t cell) const {
  for (int plane = 0; plane < stones(); ++plane) {
    if (seen[static_cast<size_t>(plane * cells() + cell)] > 0.5F) {
      return true;
    }
  }
  return false;
}

}  // namespace mstrain::reinforcement
