// grid_world: to a goal past walls and pits. key_door: the goal is behind a door, whose key lies elsewhere each time.
#include "suites/reinforcement/env/grid_worlds.h"
#include "suites/reinforcement/env/grid.h"

namespace mstrain::reinforcement {
namespace {

// Four rooms (Sutton, Precup and Singh, "Between MDPs and semi-MDPs", 1999) with pits beside the passages.
const GridMap kRooms(
    "#########"
    "#...#...#"
    "#.......#"
    "#...#..O#"
    "##.###.##"
    "#...#...#"
    "#O......#"
    "#...#..G#"
    "#########",
    9);

const GridMap kLocked(
    "########"
    "#...#..#"
    "#...#..#"
    "#...D.G#"
    "#...#..#"
    "#...#..#"
    "########",
    8);

std::vector<int64_t> free_cells(const GridMap& map, int64_t from_column, int64_t to_column) {
  std::vector<int64_t> cells;
  for (int64_t cell : map.all('.')) {
    if (cell % map.width() >= from_column && cell % map.width() < to_column) {
      cells.push_back(cell);
    }
  }
  return cells;
}

int64_t any_of(const std::vector<int64_t>& cells, EnvRandom& random) {
  return cells[static_cast<size_t>(random.below(static_cast<int64_t>(cells.size())))];
}

}  // namespace

EnvSpec GridWorld::spec() {
  return {.name = "grid_world",
          .about = "four rooms: a goal (+1), pits (-1), steps that cost 0.01",
          .observation = Space::box({kRooms.size()}, 0, 1),
          .action = Space::discrete(4),
          .state_size = 1,
          .time_limit = 100,
          .reward_threshold = 0.85};
}

void GridWorld::begin(EnvRandom& random) {
  static const std::vector<int64_t> kStarts = free_cells(kRooms, 0, kRooms.width());
  cell = any_of(kStarts, random);
}

bool GridWorld::step(std::span<const int64_t> actions, EnvRandom& /*random*/,
                     std::span<float> rewards) {
  cell = kRooms.moved(cell, actions[0]);
  const char here = kRooms.at(cell);
  rewards[0] = here == 'G' ? 1.0F : here == 'O' ? -1.0F : -0.01F;
  return here != '.';
}

void GridWorld::observe(std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0F);
  out[static_cast<size_t>(cell)] = 1;
}

void GridWorld::get_state(std::span<double> out) const { out[0] = static_cast<double>(cell); }

void GridWorld::set_state(std::span<const double> state) {
  const int64_t to = whole_state(state, 0, 0, kRooms.size() - 1);
  check(kRooms.at(to) != '#', "cell {} is a wall", to);
  cell = to;
}

Image GridWorld::picture() const {
  Canvas canvas = kRooms.draw();
  kRooms.fill(canvas, kRooms.find('G'), kGreen);
  for (int64_t pit : kRooms.all('O')) {
    canvas.disc(kRooms.centre(pit), 12, kRed);
  }
  canvas.disc(kRooms.centre(cell), 10, kBlue);
  return canvas.take();
}

EnvSpec KeyDoor::spec() {
  const int64_t cells = kLocked.size();
  return {.name = "key_door",
          .about = "fetch a key (+0.2), open the door with it, reach the goal (+1)",
          .observation = Space::box({2 * cells + 2}, 0, 1),
          .action = Space::discrete(4),
          .state_size = 4,
          .time_limit = 150,
          .reward_threshold = 0.9};
}

void KeyDoor::begin(EnvRandom& random) {
  static const std::vector<int64_t> kLeft =
      free_cells(kLocked, 0, kLocked.find('D') % kLocked.width());
  cell = any_of(kLeft, random);
  do {
    key = any_of(kLeft, random);
  } while (key == cell);
  has_key = is_open = false;
}

bool KeyDoor::step(std::span<const int64_t> actions, EnvRandom& /*random*/,
                   std::span<float> rewards) {
  const int64_t to = kLocked.moved(cell, actions[0]);
  const bool meets_door = kLocked.at(to) == 'D';
  if (meets_door && has_key) {
    is_open = true;
  }
  if (!meets_door || is_open) {
    cell = to;
  }
  rewards[0] = -0.01F;
  if (!has_key && cell == key) {
    has_key = true;
    rewards[0] = 0.2F;
  }
  if (kLocked.at(cell) == 'G') {
    rewards[0] = 1;
    return true;
  }
  return false;
}

void KeyDoor::observe(std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0F);
  const auto cells = static_cast<size_t>(kLocked.size());
  out[static_cast<size_t>(cell)] = 1;
  if (!has_key) {
    out[cells + static_cast<size_t>(key)] = 1;
  }
  out[2 * cells] = has_key ? 1 : 0;
  out[2 * cells + 1] = is_open ? 1 : 0;
}

void KeyDoor::get_state(std::span<double> out) const {
  out[0] = static_cast<double>(cell);
  out[1] = static_cast<double>(key);
  out[2] = has_key ? 1 : 0;
  out[3] = is_open ? 1 : 0;
}

void KeyDoor::set_state(std::span<const double> state) {
  KeyDoor to;
  to.cell = whole_state(state, 0, 0, kLocked.size() - 1);
  to.key = whole_state(state, 1, 0, kLocked.size() - 1);
  to.has_key = whole_state(state, 2, 0, 1) != 0;
  to.is_open = whole_state(state, 3, 0, 1) != 0;
  check(kLocked.at(to.cell) != '#' && kLocked.at(to.key) == '.', "cell {} or {} is a wall", to.cell,
        to.key);
  *this = to;
}

Image KeyDoor::picture() const {
  Canvas canvas = kLocked.draw();
  kLocked.fill(canvas, kLocked.find('G'), kGreen);
  if (!is_open) {
    kLocked.fill(canvas, kLocked.find('D'), kAmber);
  }
  if (!has_key) {
    canvas.disc(kLocked.centre(key), 6, kAmber);
  }
  canvas.disc(kLocked.centre(cell), 10, kBlue);
  if (has_key) {
    canvas.disc(kLocked.centre(cell), 5, kAmber);
  }
  return canvas.take();
}

}  // namespace mstrain::reinforcement
