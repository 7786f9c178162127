#include "suites/reinforcement/env/team_games.h"

#include "suites/reinforcement/env/grid.h"

namespace mstrain::reinforcement {
namespace {

const GridMap kField(".........................", Spread::kSide);

int64_t between(int64_t a, int64_t b) {
  return std::abs(a / Spread::kSide - b / Spread::kSide) +
         std::abs(a % Spread::kSide - b % Spread::kSide);
}

}  // namespace

EnvSpec ClimbingGame::spec() {
  return {.name = "climbing_game",
          .about = "two agents choose at once; the best pair is hard to find together (optimum 11)",
          .observation = Space::box({0, 0}, {1, 1}),
          .action = Space::discrete(3),
          .state_size = 1,
          .time_limit = 0,
          .reward_threshold = 11,
          .agents = 2};
}

void ClimbingGame::begin(EnvRandom& /*random*/) { last = -1; }

bool ClimbingGame::step(std::span<const int64_t> actions, EnvRandom& /*random*/,
                        std::span<float> rewards) {
  rewards[0] = rewards[1] = kPays[actions[0]][actions[1]];
  last = actions[0] * 3 + actions[1];
  return true;
}

// Which of the two one is: all that there is to see.
void ClimbingGame::observe(std::span<float> out) const {
  out[0] = out[3] = 1;
  out[1] = out[2] = 0;
}

void ClimbingGame::get_state(std::span<double> out) const { out[0] = static_cast<double>(last); }
void ClimbingGame::set_state(std::span<const double> state) { last = whole_state(state, 0, -1, 8); }

Image ClimbingGame::picture() const {
  constexpr double kCell = 40;
  Canvas canvas(3 * 40, 3 * 40);
  for (int64_t pair = 0; pair < 9; ++pair) {
    const float pay = kPays[pair / 3][pair % 3];
    const double x = static_cast<double>(pair % 3) * kCell,
                 y = static_cast<double>(pair / 3) * kCell;
    canvas.rectangle({x + 1, y + 1}, {x + kCell - 1, y + kCell - 1},
                     pay > 10  ? kGreen
                     : pay < 0 ? kRed
                               : kGrey);
    if (pair == last) {
      canvas.disc({x + kCell / 2, y + kCell / 2}, 10, kBlue);
    }
  }
  return canvas.take();
}

EnvSpec TwoStepGame::spec() {
  return {
      .name = "two_step_game",
      .about = "the first agent chooses the game that two play next, safe or better (optimum 8)",
      .observation = Space::box(Shape{5}, 0, 1),
      .action = Space::discrete(2),
      .state_size = 1,
      .time_limit = 0,
      .reward_threshold = 8,
      .agents = 2};
}

void TwoStepGame::begin(EnvRandom& /*random*/) { state = 0; }

bool TwoStepGame::step(std::span<const int64_t> actions, EnvRandom& /*random*/,
                       std::span<float> rewards) {
  if (state == 0) {
    state = 1 + actions[0];
    rewards[0] = rewards[1] = 0;
    return false;
  }
  rewards[0] = rewards[1] = state == 1 ? kSafe : kPays[actions[0]][actions[1]];
  return true;
}

// Of each agent: the state, and which one it is.
void TwoStepGame::observe(std::span<float> out) const {
  std::ranges::fill(out, 0.0F);
  for (size_t agent = 0; agent < 2; ++agent) {
    out[agent * 5 + static_cast<size_t>(state)] = 1;
    out[agent * 5 + 3 + agent] = 1;
  }
}

void TwoStepGame::get_state(std::span<double> out) const { out[0] = static_cast<double>(state); }
void TwoStepGame::set_state(std::span<const double> from) { state = whole_state(from, 0, 0, 2); }

Image TwoStepGame::picture() const {
  constexpr double kCell = 40;
  Canvas canvas(3 * 40, 40);
  for (int64_t each = 0; each < 3; ++each) {
    const double x = static_cast<double>(each) * kCell;
    canvas.rectangle({x + 1, 1}, {x + kCell - 1, kCell - 1}, each == 2 ? kGreen : kGrey);
    if (each == state) {
      canvas.disc({x + kCell / 2, kCell / 2}, 10, kBlue);
    }
  }
  return canvas.take();
}

EnvSpec Spread::spec() {
  return {.name = "spread",
          .about = "two agents take a mark each, without meeting (best: sum of least distances)",
          .observation = Space::box({8}, -1, 1),
          .action = Space::discrete(5),
          .state_size = 4,
          .time_limit = 25,
          .agents = 2,
          .endless = true};
}

void Spread::begin(EnvRandom& random) {
  std::array<int64_t, 4> places{};
  for (size_t i = 0; i < places.size();) {
    places[i] = random.below(kSide * kSide);
    i += std::find(places.begin(), places.begin() + static_cast<long>(i), places[i]) ==
                 places.begin() + static_cast<long>(i)
             ? 1
             : 0;
  }
  agents = {places[0], places[1]};
  marks = {places[2], places[3]};
}

int64_t Spread::distance() const {
  return std::min(between(agents[0], marks[0]) + between(agents[1], marks[1]),
                  between(agents[0], marks[1]) + between(agents[1], marks[0]));
}

bool Spread::step(std::span<const int64_t> actions, EnvRandom& /*random*/,
                  std::span<float> rewards) {
  const std::array<int64_t, 2> to = {kField.moved(agents[0], actions[0]),
                                     kField.moved(agents[1], actions[1])};
  const bool swap = to[0] == agents[1] && to[1] == agents[0];
  if (to[0] != to[1] && !swap) {
    agents = to;
  }
  const int64_t left = distance();
  rewards[0] = rewards[1] = left == 0 ? 1.0F : -static_cast<float>(left) / kSide;
  return left == 0;
}

void Spread::observe(std::span<float> out) const {
  for (size_t me = 0; me < 2; ++me) {
    const int64_t own = agents[me];
    float* row = out.data() + me * 8;
    row[0] = static_cast<float>(own / kSide) / kSide;
    row[1] = static_cast<float>(own % kSide) / kSide;
    const int64_t others[3] = {agents[1 - me], marks[0], marks[1]};
    for (int k = 0; k < 3; ++k) {
      row[2 + 2 * k] = static_cast<float>(others[k] / kSide - own / kSide) / kSide;
      row[3 + 2 * k] = static_cast<float>(others[k] % kSide - own % kSide) / kSide;
    }
  }
}

void Spread::get_state(std::span<double> out) const {
  for (size_t i = 0; i < 2; ++i) {
    out[i] = static_cast<double>(agents[i]);
    out[2 + i] = static_cast<double>(marks[i]);
  }
}

void Spread::set_state(std::span<const double> state) {
  std::array<int64_t, 4> places{};
  for (size_t k = 0; k < 4; ++k) {
    places[k] = whole_state(state, k, 0, kSide * kSide - 1);
  }
  check(places[0] != places[1] && places[2] != places[3], "two agents or two marks in one cell");
  agents = {places[0], places[1]};
  marks = {places[2], places[3]};
}

Image Spread::picture() const {
  Canvas canvas = kField.draw();
  for (int64_t mark : marks) {
    kField.fill(canvas, mark, kGreen);
  }
  canvas.disc(kField.centre(agents[0]), 10, kBlue);
  canvas.disc(kField.centre(agents[1]), 10, kAmber);
  return canvas.take();
}

}  // namespace mstrain::reinforcement
