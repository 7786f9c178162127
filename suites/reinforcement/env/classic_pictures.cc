#include "suites/reinforcement/env/classic_pictures.h"

#include <algorithm>
#include <cmath>

#include "suites/reinforcement/env/canvas.h"
#include "suites/reinforcement/env/lanes/cartpole.h"
#include "suites/reinforcement/env/lanes/mountain_car.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kSide = 240;  // of the square ones

Point beside(Point from, double length, double angle) {  // 0: down; turning to the right
  return {from.x + length * std::sin(angle), from.y + length * std::cos(angle)};
}

Image draw_valley(const double* state, double goal) {
  constexpr double kWidth = 360, kHeight = 240, kScale = kWidth / (kMountainRight - kMountainLeft);
  const auto place = [](double x) {
    const double height = std::sin(3 * x) * 0.45 + 0.55;
    return Point{(x - kMountainLeft) * kScale, kHeight - 12 - height * 0.95 * kScale};
  };
  Canvas canvas(static_cast<int64_t>(kWidth), static_cast<int64_t>(kHeight));
  constexpr int kPieces = 60;
  for (int i = 0; i < kPieces; ++i) {
    const auto at = [&](int j) {
      return place(kMountainLeft + (kMountainRight - kMountainLeft) * j / kPieces);
    };
    canvas.line(at(i), at(i + 1), 2, kInk);
  }
  const Point flag = place(goal);
  canvas.line(flag, {flag.x, flag.y - 34}, 2, kInk);
  const Point cloth[3] = {{flag.x, flag.y - 34}, {flag.x + 16, flag.y - 28}, {flag.x, flag.y - 22}};
  canvas.convex(cloth, kRed);
  const Point car = place(state[0]);
  canvas.disc({car.x, car.y - 8}, 8, kBlue);
  return canvas.take();
}

}  // namespace

Image draw_cartpole(const double* state) {
  constexpr double kWidth = 360, kHeight = 240, kScale = kWidth / (2 * CartPole::kEnd), kRail = 180;
  Canvas canvas(static_cast<int64_t>(kWidth), static_cast<int64_t>(kHeight));
  canvas.line({0, kRail}, {kWidth, kRail}, 1.5, kGrey);
  const double x = kWidth / 2 + std::clamp(state[0], -10.0, 10.0) * kScale;
  canvas.rectangle({x - 24, kRail - 12}, {x + 24, kRail + 12}, kInk);
  const Point joint{x, kRail - 10};
  const double pole = 1.0 * kScale;  // its whole length is 1
  canvas.line(joint, {joint.x + pole * std::sin(state[2]), joint.y - pole * std::cos(state[2])}, 8,
              kAmber);
  canvas.disc(joint, 4, kBlue);
  return canvas.take();
}

Image draw_acrobot(const double* state) {
  constexpr double kScale = kSide / 4.4;
  const Point centre{kSide / 2, kSide / 2};
  const Point elbow = beside(centre, kScale, state[0]);
  const Point hand = beside(elbow, kScale, state[0] + state[1]);
  Canvas canvas(static_cast<int64_t>(kSide), static_cast<int64_t>(kSide));
  canvas.line({0, centre.y - kScale}, {kSide, centre.y - kScale}, 1.5, kGrey);  // the goal's height
  canvas.line(centre, elbow, 9, kBlue);
  canvas.line(elbow, hand, 9, kBlue);
  canvas.disc(centre, 6, kAmber);
  canvas.disc(elbow, 6, kAmber);
  return canvas.take();
}

Image draw_mountain_car(const double* state) { return draw_valley(state, MountainCar::kGoal); }

Image draw_mountain_car_continuous(const double* state) {
  return draw_valley(state, MountainCarContinuous::kGoal);
}

Image draw_pendulum(const double* state) {
  const Point centre{kSide / 2, kSide / 2};
  Canvas canvas(static_cast<int64_t>(kSide), static_cast<int64_t>(kSide));
  const double length = kSide * 0.4;
  const Point tip{centre.x - length * std::sin(state[0]), centre.y - length * std::cos(state[0])};
  canvas.line(centre, tip, 16, kRed);
  canvas.disc(centre, 4, kInk);
  return canvas.take();
}

}  // namespace mstrain::reinforcement
