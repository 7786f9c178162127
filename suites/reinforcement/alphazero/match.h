// Matches of two contestants, and what they say about strength.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/mesh.h"
#include "suites/reinforcement/alphazero/contestant.h"

namespace mstrain::alphazero {

// "+120", or "unbounded".
std::string elo_text(const std::optional<double>& elo);

// Games of the first contestant.
struct Tally {
  int64_t wins = 0, draws = 0, losses = 0;
  int64_t games() const { return wins + draws + losses; }
};

// Elo's difference for a score in (0, 1), which is 0 for 1/2; none for 0 and 1, where it is not finite.
std::optional<double> elo_of_score(double score);

struct MatchResult {
  std::array<Tally, 2> by_colour;  // where the first contestant began, and where it did not
  std::vector<double>
      pair_scores;  // of the first contestant in the two games from one opening: 0 to 1

  Tally all() const;
  double score() const;
  // Of score(), from how pairs differ, and from one more half-won pair, so that it is not 0 for equal pairs.
  double standard_error() const;
  std::optional<double> elo() const { return elo_of_score(score()); }
  // 95 % of the distribution lie between; none: not bounded there.
  std::optional<double> elo_low() const;
  std::optional<double> elo_high() const;
};

// Two games from each opening, with the colours changed: `games` is even. A function of these arguments, whatever the ranks are, which
// share the games: each of them calls it, and gets the same. Null: there is one. Throws Stopped once `stop` is set on any of them, Error
// where the game has too few openings (check_openings()).
MatchResult play_match(const BoardGame& game, Contestant& a, Contestant& b, int64_t games,
                       uint64_t seed, const std::atomic<bool>& stop, Ranks* ranks = nullptr);

}  // namespace mstrain::alphazero
