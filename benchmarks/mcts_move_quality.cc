// How good the moves of connect four's UCT are, against a solver: random open positions (uniformly random play that no one
// has won), one rollout for each leaf, uct_c 2, solver off. Or those of a run of alphazero by
// both searches, where one is named.
//
//   mcts_move_quality [positions=400] [seed=1] [run]
//
// Each number of simulations is spent by one thread and by two in one tree, which must not choose worse: the difference and
// its standard error are taken over the positions, each with both.
// "kept": the chosen move keeps the position's value (win, draw or loss). "exact": it also wins as soon, or loses as late,
// as possible. "trivial" positions, where every move keeps the value, count as kept; their share is printed.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/runtime/context.h"
#include "mcts/any_game.h"
#include "mcts/evaluators.h"
#include "mcts/search/search.h"
#include "suites/reinforcement/alphazero/contestant.h"
#include "tests/mcts/connect_four_solver.h"

namespace mstrain::mcts {
namespace {

struct Judged {
  ConnectFour state;
  std::vector<int> scores;  // of the move in each column; kIllegal where it is full
  int best = 0;
};
constexpr int kIllegal = -1000;

Judged judge(const ConnectFour& state, ConnectFourSolver& solver) {
  Judged out{state, std::vector<int>(7, kIllegal), kIllegal};
  ActionBuffer actions;
  state.legal(actions);
  for (const Action column : actions) {
    ConnectFour next = state;
    next.apply(column);
    int& score = out.scores[column];
    if (next.player() != kTerminal) {
      score = -solver.score(next);
    } else {
      const bool won = next.returns()[static_cast<size_t>(state.player())] > 0;
      score = won ? (43 - state.plies()) / 2 : 0;
    }
    out.best = std::max(out.best, score);
  }
  return out;
}

int sign(int x) { return (x > 0) - (x < 0); }

struct Answers {
  std::vector<bool> kept;
  int exact = 0;
  double seconds = 0;
};

void judge_choice(const Judged& position, Action action, Answers& out) {
  const int score = position.scores[action];
  out.kept.push_back(sign(score) == sign(position.best));
  out.exact += score == position.best ? 1 : 0;
}

Answers answer(const std::vector<Judged>& set, const SearchConfig& config, int64_t simulations) {
  Answers out;
  const auto start = std::chrono::steady_clock::now();
  Search<ConnectFour> search(config);
  for (const Judged& j : set) {
    RandomRollout rollout;
    const auto result = search.run(j.state, rollout, Budget::sims(simulations));
    judge_choice(j, result.action.value(), out);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

void report(const char* who, int64_t simulations, const Answers& a) {
  const auto positions = static_cast<double>(a.kept.size());
  const double share =
      static_cast<double>(std::count(a.kept.begin(), a.kept.end(), true)) / positions;
  fmt::print(
      "  {:>6} simulations, {:<13}: value kept {:.2f} % (+- {:.2f}), exact {:.2f} %, {:.2f} s\n",
      simulations, who, 100 * share, 100 * std::sqrt(share * (1 - share) / positions),
      100.0 * a.exact / positions, a.seconds);
}

std::vector<Judged> positions_of(int plies, int count, uint64_t seed) {
  Random rng(seed, static_cast<uint64_t>(plies));
  ConnectFourSolver solver(size_t{1} << 22);
  std::vector<Judged> set;
  int trivial = 0;
  for (int i = 0; i < count; ++i) {
    set.push_back(judge(random_open_position(plies, rng), solver));
    const Judged& j = set.back();
    trivial += std::all_of(j.scores.begin(), j.scores.end(),
                           [&](int s) { return s == kIllegal || sign(s) == sign(j.best); })
                   ? 1
                   : 0;
  }
  fmt::print("{} plies, {} positions, seed {} ({:.1f} % trivial)\n", plies, count, seed,
             100.0 * trivial / count);
  return set;
}

void measure_uct(const std::vector<Judged>& set, uint64_t seed) {
  for (const int64_t sims : {100, 1'000, 10'000, 100'000}) {
    const Answers one = answer(set, {.seed = seed}, sims);
    const Answers two =
        answer(set, {.seed = seed, .parallelism = Parallelism::kTree, .threads = 2}, sims);
    report("one thread", sims, one);
    report("two, one tree", sims, two);
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < set.size(); ++i) {
      const double difference = int{two.kept[i]} - int{one.kept[i]};
      sum += difference;
      squares += difference * difference;
    }
    const auto positions = static_cast<double>(set.size());
    const double mean = sum / positions;
    fmt::print("          two threads keep {:+.2f} points (+- {:.2f})\n", 100 * mean,
               100 * std::sqrt((squares / positions - mean * mean) / positions));
  }
}

void measure_agent(const std::vector<Judged>& set, alphazero::Agent& agent, uint64_t seed) {
  std::vector<AnyGame> states;
  std::vector<uint64_t> seeds;
  for (const Judged& j : set) {
    states.push_back(any_game(j.state));
    seeds.push_back(Random(seed, states.size()).next_u64());
  }
  std::vector<std::pair<alphazero::SearchKind, int64_t>> kinds;
  for (const auto kind : {alphazero::SearchKind::kGumbel, alphazero::SearchKind::kPuct}) {
    for (const int64_t sims : {2, 16, 100, 400}) {
      kinds.emplace_back(kind, sims);
    }
  }
  for (const auto& [kind, sims] : kinds) {
    agent.search_by(kind);
    const auto player =
        alphazero::network_contestant("run", agent.config(), agent.evaluator(), sims);
    Answers out;
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Action> chosen = player->choose(states, seeds);
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (size_t i = 0; i < set.size(); ++i) {
      judge_choice(set[i], chosen[i], out);
    }
    report(agent.policy(), sims, out);
  }
}

}  // namespace
}  // namespace mstrain::mcts

int main(int argc, char** argv) {
  const int positions = argc > 1 ? std::atoi(argv[1]) : 400;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  mstrain::check(positions >= 200, "positions: expected at least 200, found {}", positions);
  const auto agent = argc > 3
                         ? mstrain::alphazero::load_agent(mstrain::real_files(), argv[3],
                                                          mstrain::current_context().num_threads())
                         : nullptr;
  for (const int plies : {14, 20}) {
    const auto set = mstrain::mcts::positions_of(plies, positions, seed);
    if (agent) {
      mstrain::mcts::measure_agent(set, *agent, seed);
    } else {
      mstrain::mcts::measure_uct(set, seed);
    }
  }
}
