#include "suites/reinforcement/env/memory_tasks.h"

#include "suites/reinforcement/env/canvas.h"

namespace mstrain::reinforcement {

EnvSpec TMaze::spec() {
  return {.name = "t_maze",
          .about = "a corridor whose start shows where to turn at its end (memory)",
          .observation = Space::box({-1, 0, 0}, {1, 1, 1}),
          .action = Space::discrete(3),
          .state_size = 2,
          .time_limit = 5 * kLength,
          .reward_threshold = 0.9};
}

void TMaze::begin(EnvRandom& random) {
  place = 0;
  side = random.below(2) == 0 ? -1 : 1;
}

bool TMaze::step(std::span<const int64_t> actions, EnvRandom& /*random*/,
                 std::span<float> rewards) {
  const bool at_end = place == kLength - 1;
  if (at_end && actions[0] != 0) {
    rewards[0] = (actions[0] == 1 ? -1 : 1) == side ? 1.0F : -1.0F;
    return true;
  }
  if (!at_end && actions[0] == 0) {
    ++place;
  }
  rewards[0] = -0.01F;
  return false;
}

void TMaze::observe(std::span<float> out) const {
  out[0] = place == 0 ? static_cast<float>(side) : 0;
  out[1] = place == kLength - 1 ? 1 : 0;
  out[2] = place == 0 ? 1 : 0;
}

void TMaze::get_state(std::span<double> out) const {
  out[0] = static_cast<double>(place);
  out[1] = static_cast<double>(side);
}

void TMaze::set_state(std::span<const double> state) {
  const int64_t to = whole_state(state, 0, 0, kLength - 1), where = whole_state(state, 1, -1, 1);
  check(where != 0, "number 1 of a state is 0: expected -1 or 1");
  place = to;
  side = where;
}

Image TMaze::picture() const {
  constexpr double kCell = 32;
  Canvas canvas(kLength * static_cast<int64_t>(kCell), 3 * static_cast<int64_t>(kCell), kGrey);
  const double end = kLength * kCell;
  canvas.rectangle({0, kCell}, {end, 2 * kCell}, kWhite);
  canvas.rectangle({end - kCell, 0}, {end, 3 * kCell}, kWhite);
  const double goal = side < 0 ? 0 : 2 * kCell;
  canvas.rectangle({end - kCell, goal}, {end, goal + kCell}, kGreen);
  canvas.disc({(static_cast<double>(place) + 0.5) * kCell, 1.5 * kCell}, 10, kBlue);
  return canvas.take();
}

EnvSpec RepeatCue::spec() {
  return {.name = "repeat_cue",
          .about = "name the cue of the first observation, again and again (memory)",
          .observation = Space::box({kCues + 1}, 0, 1),
          .action = Space::discrete(kCues),
          .state_size = 2,
          .time_limit = 0,
          .reward_threshold = 0.95};
}

void RepeatCue::begin(EnvRandom& random) {
  cue = random.below(kCues);
  taken = 0;
}

bool RepeatCue::step(std::span<const int64_t> actions, EnvRandom& /*random*/,
                     std::span<float> rewards) {
  rewards[0] = actions[0] == cue ? 1.0F / kSteps : 0.0F;
  return ++taken == kSteps;
}

void RepeatCue::observe(std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0F);
  out[static_cast<size_t>(taken == 0 ? cue : kCues)] = 1;
}

void RepeatCue::get_state(std::span<double> out) const {
  out[0] = static_cast<double>(cue);
  out[1] = static_cast<double>(taken);
}

void RepeatCue::set_state(std::span<const double> state) {
  const int64_t to = whole_state(state, 0, 0, kCues - 1);
  taken = whole_state(state, 1, 0, kSteps);
  cue = to;
}

Image RepeatCue::picture() const {
  Canvas canvas(kCues * 48, 80);
  for (int64_t k = 0; k < kCues; ++k) {
    canvas.disc({(static_cast<double>(k) + 0.5) * 48, 30}, 18, k == cue ? kGreen : kGrey);
  }
  canvas.rectangle({0, 68}, {static_cast<double>(kCues * 48 * taken) / kSteps, 80}, kBlue);
  return canvas.take();
}

}  // namespace mstrain::reinforcement
