// Racetrack (M. Gardner, 1973; as a stochastic problem R. Sutton and A. Barto, "Reinforcement Learning", exercise 5.12):
// each move changes the car's speed by at most one in each direction, then the car drives; one time in ten the road is
// slippery and the speed stays. A car that would leave the track stands at its edge and has lost all speed.
//
// A move costs 1/8, one that ends at the edge 3/8; time is up after 40 moves, which costs 1/8 for each king's move that
// is left to the finish.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

class Racetrack {
 public:
  static constexpr std::string_view kName = "racetrack";
  static constexpr int kPlayers = 1;
  // 3 * (dy + 1) + dx + 1; for chance 9: the road grips, 10: the car slips.
  static constexpr uint32_t kMaxActions = 11;
  static constexpr float kMinReturn = -20;
  static constexpr float kMaxReturn = 0;
  static constexpr int kMaxMoves = 40;
  static constexpr int kMaxSpeed = 3;
  static constexpr float kSlip = 0.1F;
  static constexpr float kCost = 1.0F / 8;
  static constexpr int kObservationSize = 5;

  static constexpr int kColumns = 16;
  static constexpr int kRows = 10;
  static constexpr std::array<std::string_view, kRows> kTrack = {"################",  //
                                                                 "#......#########",  //
                                                                 "#.......########",  //
                                                                 "#...#....#######",  //
                                                                 "#...##....######",  //
                                                                 "#...###....#####",  //
                                                                 "#...####.......F",  //
                                                                 "#...#####......F",  //
                                                                 "#.S.######.....F",  //
                                                                 "################"};

  struct Car {
    int column = 2;
    int row = 8;
    int dx = 0;  // cells per move; dy grows downwards
    int dy = 0;
    bool operator==(const Car&) const = default;
  };

  Racetrack() = default;
  explicit Racetrack(const Car& car) : car_(car) {}

  const Car& car() const { return car_; }
  static bool on_track(int column, int row) {
    return column >= 0 && column < kColumns && row >= 0 && row < kRows &&
           kTrack[static_cast<size_t>(row)][static_cast<size_t>(column)] != '#';
  }

  int player() const {
    if (chosen_ >= 0) {
      return kChance;
    }
    return finished_ || moves_ == kMaxMoves ? kTerminal : 0;
  }
  void legal(ActionBuffer& out) const {
    for (Action a = 0; a < 9; ++a) {
      const int dx = car_.dx + static_cast<int>(a % 3) - 1;
      const int dy = car_.dy + static_cast<int>(a / 3) - 1;
      if (std::abs(dx) <= kMaxSpeed && std::abs(dy) <= kMaxSpeed) {
        out.push(a);
      }
    }
  }
  void apply(Action a) {
    paid_ = 0;
    if (a < 9) {
      chosen_ = static_cast<int8_t>(a);
      return;
    }
    if (a == kGrips) {
      car_.dx += chosen_ % 3 - 1;
      car_.dy += chosen_ / 3 - 1;
    }
    chosen_ = -1;
    ++moves_;
    paid_ = 1;
    drive();
  }
  Returns<1> rewards() const { return {-kCost * static_cast<float>(paid_)}; }
  Returns<1> returns() const {
    return {finished_ ? 0.0F : -kCost * static_cast<float>(distance(car_.column, car_.row))};
  }
  void chance(ChanceBuffer& out) const {
    out.push({kGrips, 1 - kSlip});
    out.push({kSlips, kSlip});
  }
  uint64_t hash() const {
    uint64_t out = static_cast<uint64_t>(car_.row * kColumns + car_.column);
    out = hash_combine(out, static_cast<uint64_t>((car_.dx + 8) * 32 + car_.dy + 8));
    out = hash_combine(out, static_cast<uint64_t>(moves_ * 16 + chosen_ + 1));
    return hash_combine(out, finished_ ? 1U : 0U);
  }

  void observe(int, std::span<float> out) const {
    out[0] = static_cast<float>(car_.column) / kColumns;
    out[1] = static_cast<float>(car_.row) / kRows;
    out[2] = static_cast<float>(car_.dx) / kMaxSpeed;
    out[3] = static_cast<float>(car_.dy) / kMaxSpeed;
    out[4] = static_cast<float>(moves_) / kMaxMoves;
  }

  // A move is the change of speed, as "ne", "w", "-" for none; then "grips" or "slips".
  std::string action_to_string(Action a) const {
    static constexpr std::array<const char*, 11> kNames = {"nw", "n", "ne", "w",     "-",    "e",
                                                           "sw", "s", "se", "grips", "slips"};
    return kNames[a];
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  // Column, row, speed, moves made, then the chosen change of speed or the end of the race, where there is one.
  std::string position() const {
    return fmt::format("{} {} {} {} {}{}{}", car_.column, car_.row, car_.dx, car_.dy, moves_,
                       chosen_ >= 0 ? " " + action_to_string(static_cast<Action>(chosen_)) : "",
                       finished_ ? " finished" : "");
  }
  static Racetrack from_position(std::string_view text);
  std::string draw() const {
    std::string out;
    for (int row = 0; row < kRows; ++row) {
      std::string line(kTrack[static_cast<size_t>(row)]);
      if (row == car_.row) {
        line[static_cast<size_t>(car_.column)] = 'C';
      }
      out += "  " + line + "\n";
    }
    return out + fmt::format("  speed {} east, {} south; {} moves\n", car_.dx, car_.dy, moves_);
  }

 private:
  static constexpr Action kGrips = 9;
  static constexpr Action kSlips = 10;

  // Moves the car along the straight line to its goal, cell by cell, to the first cell that stops it.
  void drive() {
    const Car from = car_;
    const int steps = std::max(std::abs(from.dx), std::abs(from.dy));
    for (int i = 1; i <= steps; ++i) {
      const int column = from.column + rounded(from.dx * i, steps);
      const int row = from.row + rounded(from.dy * i, steps);
      if (!on_track(column, row)) {
        car_.dx = car_.dy = 0;
        paid_ = 3;
        return;
      }
      car_.column = column;
      car_.row = row;
      if (kTrack[static_cast<size_t>(row)][static_cast<size_t>(column)] == 'F') {
        finished_ = true;
        return;
      }
    }
  }
  // a / b to the nearest, halves away from zero; b > 0.
  static int rounded(int a, int b) { return (2 * std::abs(a) + b) / (2 * b) * (a < 0 ? -1 : 1); }

  // King's moves on the track to the nearest finish.
  static int distance(int column, int row) {
    static const std::array<std::array<int, kColumns>, kRows> table = [] {
      std::array<std::array<int, kColumns>, kRows> out;
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          const char cell = kTrack[static_cast<size_t>(r)][static_cast<size_t>(c)];
          out[static_cast<size_t>(r)][static_cast<size_t>(c)] = cell == 'F' ? 0 : kColumns * kRows;
        }
      }
      const auto at = [&out](int r, int c) -> int& {
        return out[static_cast<size_t>(r)][static_cast<size_t>(c)];
      };
      for (int sweep = 0; sweep < kColumns * kRows; ++sweep) {
        for (int r = 1; r < kRows - 1; ++r) {
          for (int c = 1; c < kColumns - 1; ++c) {
            for (int n = 0; n < 9 && on_track(c, r); ++n) {
              at(r, c) = std::min(at(r, c), at(r + n / 3 - 1, c + n % 3 - 1) + 1);
            }
          }
        }
      }
      return out;
    }();
    return table[static_cast<size_t>(row)][static_cast<size_t>(column)];
  }

  Car car_;
  int moves_ = 0;
  int paid_ = 0;
  int8_t chosen_ = -1;  // change of speed that waits for the road's answer
  bool finished_ = false;
};

inline Racetrack Racetrack::from_position(std::string_view text) {
  const std::string copy(text);
  Racetrack out;
  int read = 0;
  const int fields = std::sscanf(copy.c_str(), "%4d %4d %4d %4d %4d%n", &out.car_.column,
                                 &out.car_.row, &out.car_.dx, &out.car_.dy, &out.moves_, &read);
  check(fields == 5, "position: expected column, row, two speeds and the moves made, found \"{}\"",
        text);
  check(on_track(out.car_.column, out.car_.row), "position: column {}, row {} is not on the track",
        out.car_.column, out.car_.row);
  check(std::abs(out.car_.dx) <= kMaxSpeed && std::abs(out.car_.dy) <= kMaxSpeed,
        "position: expected speeds of -{0} to {0}, found {1} {2}", kMaxSpeed, out.car_.dx,
        out.car_.dy);
  check(out.moves_ >= 0 && out.moves_ <= kMaxMoves, "position: expected 0 to {} moves, found {}",
        kMaxMoves, out.moves_);
  const char cell = kTrack[static_cast<size_t>(out.car_.row)][static_cast<size_t>(out.car_.column)];
  const std::string_view rest = text.substr(static_cast<size_t>(read));
  out.finished_ = cell == 'F';
  if (!rest.empty() && rest != " finished") {
    check(rest[0] == ' ' && out.player() == 0, "position: expected a change of speed, found \"{}\"",
          rest);
    out.chosen_ = static_cast<int8_t>(out.parse_action(rest.substr(1)));
  }
  check(out.finished_ == (rest == " finished"),
        "position: \"finished\" belongs to the finish alone");
  return out;
}

}  // namespace mstrain::mcts
