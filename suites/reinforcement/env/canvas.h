// A small painter: shapes with smooth edges on a picture. Coordinates are pixels, x to the right and y down, (0, 0) being the upper left
// corner of the upper left pixel.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/io/images/image.h"

namespace mstrain::reinforcement {

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
};
inline constexpr Colour kWhite{255, 255, 255}, kInk{40, 44, 52}, kGrey{168, 174, 182},
    kRed{204, 72, 72}, kGreen{84, 160, 96}, kBlue{72, 118, 190}, kAmber{226, 166, 62};

struct Point {
  double x = 0, y = 0;
};

class Canvas {
 public:
  Canvas(int64_t width, int64_t height, Colour background = kWhite);

  void disc(Point centre, double radius, Colour colour);
  // A line with round ends.
  void line(Point from, Point to, double thickness, Colour colour);
  void rectangle(Point upper_left, Point lower_right, Colour colour);
  // Of corners in either order of turning.
  void convex(std::span<const Point> corners, Colour colour);

  int64_t width() const { return image_.width; }
  int64_t height() const { return image_.height; }
  Image take() { return std::move(image_); }

 private:
  // Paints where `distance` (in pixels, negative within) says, in the box around the shape.
  template <class Distance>
  void paint(Point low, Point high, Colour colour, const Distance& distance);
  Image image_;
};

}  // namespace mstrain::reinforcement
