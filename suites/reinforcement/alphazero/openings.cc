#include "suites/reinforcement/alphazero/openings.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/base/error.h"

namespace mstrain::alphazero {
namespace {

constexpr int64_t kListed = 100000;   // that are drawn from, or more if needed
constexpr int64_t kCandidates = 4;    // for each that is wanted, where there are so many
constexpr int64_t kJudgement = 1000;  // random games for each

// Without repetition where the game tells equal positions.
std::vector<AnyGame> one_move_further(const std::vector<AnyGame>& states, size_t most) {
  std::vector<AnyGame> out;
  std::unordered_set<uint64_t> seen;
  mcts::ActionBuffer legal;
  for (const AnyGame& state : states) {
    legal.clear();
    state.legal(legal);
    for (const Action action : legal) {
      AnyGame next = state;
      next.apply(action);
      const bool is_new = !state.facts().hash || seen.insert(next.hash()).second;
      if (next.player() >= 0 && is_new) {
        out.push_back(std::move(next));
        if (out.size() == most) {
          return out;
        }
      }
    }
  }
  return out;
}

// Of the least number of moves at which there are `count`, or, where there are nowhere so many, of the one with the most.
std::vector<AnyGame> list_openings(const BoardGame& game, int64_t count) {
  const auto most = static_cast<size_t>(std::max(kListed, count));
  std::vector<AnyGame> widest{game.start()};
  std::vector<AnyGame> states = widest;
  while (std::ssize(widest) < count && !states.empty()) {
    states = one_move_further(states, most);
    if (states.size() > widest.size()) {
      widest = states;
    }
  }
  return widest;
}

void shuffle(std::vector<size_t>& order, mcts::Random& rng) {
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[rng.below(static_cast<uint32_t>(i))]);
  }
}

// How far from even a position looks to UCT.
double bias(const BoardGame& game, const AnyGame& state) {
  const auto search =
      game.playable().search({.memory_limit = int64_t{1} << 26}, mcts::RandomRollout{});
  search->set_root(state);
  return std::fabs(search->run(mcts::Budget::sims(kJudgement)).value);
}

}  // namespace

std::vector<AnyGame> openings(const BoardGame& game, int64_t count, uint64_t seed) {
  const std::vector<AnyGame> all = list_openings(game, kCandidates * count);
  check(std::ssize(all) >= count, "{} has {} openings; expected {}", game.name(), all.size(),
        count);
  mcts::Random rng(seed, 0x6f70656e);
  std::vector<size_t> order;
  for (size_t i = 0; i < all.size(); ++i) {
    order.push_back(i);
  }
  shuffle(order, rng);
  order.resize(std::min(order.size(), static_cast<size_t>(kCandidates * count)));
  std::vector<std::pair<double, size_t>> judged;
  for (const size_t i : order) {
    judged.emplace_back(order.size() == static_cast<size_t>(count) ? 0 : bias(game, all[i]), i);
  }
  std::ranges::stable_sort(judged, {}, &std::pair<double, size_t>::first);
  std::vector<AnyGame> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(all[judged[static_cast<size_t>(i)].second]);
  }
  return out;
}

void check_openings(const BoardGame& game, int64_t games, const std::string& where) {
  const int64_t found = std::ssize(list_openings(game, games / 2));
  if (found < games / 2) {
    throw ConfigError(fmt::format(
        "{}: {} games are of {} openings with both colours, and {} has at most {} different "
        "positions of one number of moves; expected at most {}",
        where, games, games / 2, game.name(), found, 2 * found));
  }
}

}  // namespace mstrain::alphazero
