#include "suites/reinforcement/alphazero/match.h"

#include <cmath>

#include "core/base/error.h"
#include "core/train/rank_talk.h"
#include "suites/reinforcement/alphazero/openings.h"
#include "suites/reinforcement/alphazero/shared_games.h"

namespace mstrain::alphazero {
namespace {

constexpr double kNormal95 = 1.959963984540054;

// One game of a match.
struct Board {
  AnyGame state;
  int first = 0;        // the player that contestant a is
  uint64_t number = 0;  // of all games
};

void play_moves_of(Contestant& who, std::vector<Board>& boards, const std::vector<size_t>& turn,
                   uint64_t seed, uint64_t ply) {
  std::vector<AnyGame> states;
  std::vector<uint64_t> seeds;
  for (const size_t i : turn) {
    states.push_back(boards[i].state);
    seeds.push_back(mcts::Random(seed, ply + 1, boards[i].number).next_u64());
  }
  const std::vector<Action> actions = who.choose(states, seeds);
  for (size_t i = 0; i < turn.size(); ++i) {
    boards[turn[i]].state.apply(actions[i]);
  }
}

// To their ends.
void play_out(Contestant& a, Contestant& b, std::vector<Board>& boards, uint64_t seed,
              const std::atomic<bool>& stop) {
  for (uint64_t ply = 0;; ++ply) {
    std::vector<size_t> turn_of_a, turn_of_b;
    for (size_t i = 0; i < boards.size(); ++i) {
      const int player = boards[i].state.player();
      if (player >= 0) {
        (player == boards[i].first ? turn_of_a : turn_of_b).push_back(i);
      }
    }
    if (turn_of_a.empty() && turn_of_b.empty()) {
      break;
    }
    if (stop) {
      throw Stopped();
    }
    if (!turn_of_a.empty()) {
      play_moves_of(a, boards, turn_of_a, seed, 2 * ply);
    }
    if (!turn_of_b.empty()) {
      play_moves_of(b, boards, turn_of_b, seed, 2 * ply + 1);
    }
  }
}

}  // namespace

std::optional<double> elo_of_score(double score) {
  if (score <= 0 || score >= 1) {
    return std::nullopt;
  }
  return 400 * std::log10(score / (1 - score));
}

std::string elo_text(const std::optional<double>& elo) {
  return elo ? fmt::format("{:+.0f}", *elo) : "unbounded";
}

Tally MatchResult::all() const {
  return {by_colour[0].wins + by_colour[1].wins, by_colour[0].draws + by_colour[1].draws,
          by_colour[0].losses + by_colour[1].losses};
}

double MatchResult::score() const {
  const Tally tally = all();
  return (static_cast<double>(tally.wins) + static_cast<double>(tally.draws) / 2) /
         static_cast<double>(tally.games());
}

double MatchResult::standard_error() const {
  const double mean = score();
  double squares = 0.25;
  for (const double pair : pair_scores) {
    squares += (pair - mean) * (pair - mean);
  }
  const auto n = static_cast<double>(pair_scores.size());
  return std::sqrt(squares / n / n);
}

std::optional<double> MatchResult::elo_low() const {
  return elo_of_score(score() - kNormal95 * standard_error());
}

std::optional<double> MatchResult::elo_high() const {
  return elo_of_score(score() + kNormal95 * standard_error());
}

MatchResult play_match(const BoardGame& game, Contestant& a, Contestant& b, int64_t games,
                       uint64_t seed, const std::atomic<bool>& stop, Ranks* ranks) {
  check(games >= 2 && games % 2 == 0, "match: {} games; expected an even number", games);
  check(game.start().players() == 2, "match: {} is no game for two", game.name());
  std::vector<double> results(static_cast<size_t>(games));  // of contestant a; elsewhere 0
  play_together(ranks, "match", [&] {
    const std::vector<AnyGame> begin = openings(game, games / 2, seed);
    const Share share = share_of(ranks, games / 2);
    std::vector<Board> boards;
    for (int64_t pair = share.first; pair < share.end(); ++pair) {
      for (const int colour : {0, 1}) {
        boards.push_back(
            {begin[static_cast<size_t>(pair)], colour, static_cast<uint64_t>(2 * pair + colour)});
      }
    }
    play_out(a, b, boards, seed, stop);
    for (const Board& board : boards) {
      results[board.number] = game.value_of(board.state.returns(), board.first);
    }
  });
  const std::vector<double> all = gathered(ranks, results, "match");
  MatchResult out;
  for (size_t i = 0; i < results.size(); ++i) {
    double result = 0;
    for (size_t at = i; at < all.size(); at += results.size()) {
      result += all[at];
    }
    Tally& tally = out.by_colour[i % 2];
    ++(result > 0 ? tally.wins : result < 0 ? tally.losses : tally.draws);
    if (i % 2 == 0) {
      out.pair_scores.push_back(0);
    }
    out.pair_scores.back() += result > 0 ? 0.5 : result < 0 ? 0 : 0.25;
  }
  return out;
}

}  // namespace mstrain::alphazero
