#include "suites/reinforcement/env/canvas.h"

#include <algorithm>
#include <cmath>

namespace mstrain::reinforcement {
namespace {

// Column or row of a coordinate, which may be anywhere.
int64_t pixel(double at, int64_t size) {
  return static_cast<int64_t>(std::clamp(std::floor(at), 0.0, static_cast<double>(size)));
}

}  // namespace

Canvas::Canvas(int64_t width, int64_t height, Colour background) : image_(height, width, 3) {
  for (int64_t i = 0; i < width * height; ++i) {
    uint8_t* p = image_.pixels.data() + i * 3;
    p[0] = background.red;
    p[1] = background.green;
    p[2] = background.blue;
  }
}

template <class Distance>
void Canvas::paint(Point low, Point high, Colour colour, const Distance& distance) {
  const int64_t x_end = pixel(high.x + 2, image_.width), y_end = pixel(high.y + 2, image_.height);
  for (int64_t y = pixel(low.y - 1, image_.height); y < y_end; ++y) {
    for (int64_t x = pixel(low.x - 1, image_.width); x < x_end; ++x) {
      const double d = distance(Point{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5});
      const double share = std::clamp(0.5 - d, 0.0, 1.0);  // of the pixel that is covered
      if (share <= 0) {
        continue;
      }
      uint8_t* p = image_.row(y) + x * 3;
      const uint8_t of[3] = {colour.red, colour.green, colour.blue};
      for (int c = 0; c < 3; ++c) {
        p[c] = static_cast<uint8_t>(std::lround(p[c] + share * (of[c] - p[c])));
      }
    }
  }
}

void Canvas::disc(Point centre, double radius, Colour colour) {
  paint({centre.x - radius, centre.y - radius}, {centre.x + radius, centre.y + radius}, colour,
        [&](Point p) { return std::hypot(p.x - centre.x, p.y - centre.y) - radius; });
}

void Canvas::line(Point from, Point to, double thickness, Colour colour) {
  const double dx = to.x - from.x, dy = to.y - from.y;
  const double square = std::max(dx * dx + dy * dy, 1e-12);
  const double r = thickness / 2;
  paint({std::min(from.x, to.x) - r, std::min(from.y, to.y) - r},
        {std::max(from.x, to.x) + r, std::max(from.y, to.y) + r}, colour, [&](Point p) {
          const double along =
              std::clamp(((p.x - from.x) * dx + (p.y - from.y) * dy) / square, 0.0, 1.0);
          return std::hypot(p.x - from.x - along * dx, p.y - from.y - along * dy) - r;
        });
}

void Canvas::rectangle(Point a, Point b, Colour colour) {
  const std::array<Point, 4> corners = {a, Point{b.x, a.y}, b, Point{a.x, b.y}};
  convex(corners, colour);
}

void Canvas::convex(std::span<const Point> corners, Colour colour) {
  Point low = corners[0], high = corners[0];
  double area = 0;
  for (size_t i = 0; i < corners.size(); ++i) {
    const Point a = corners[i], b = corners[(i + 1) % corners.size()];
    area += a.x * b.y - b.x * a.y;
    low = {std::min(low.x, a.x), std::min(low.y, a.y)};
    high = {std::max(high.x, a.x), std::max(high.y, a.y)};
  }
  const double side = area > 0 ? 1 : -1;
  paint(low, high, colour, [&](Point p) {
    double outside = -1e9;  // the largest distance from an edge
    for (size_t i = 0; i < corners.size(); ++i) {
      const Point a = corners[i], b = corners[(i + 1) % corners.size()];
      const double dx = b.x - a.x, dy = b.y - a.y;
      const double length = std::max(std::hypot(dx, dy), 1e-12);
      outside = std::max(outside, side * ((p.x - a.x) * dy - (p.y - a.y) * dx) / length);
    }
    return outside;
  });
}

}  // namespace mstrain::reinforcement
