// A run of td_afterstate on 2048 against UCT with random games, which knows the rules as well, in the same time for a move: once at
// the pace of the values alone, once with as many milliseconds for a search of either. One thread.
//
//   td_2048_vs_uct run [games=20] [milliseconds=0.25]
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "core/train/checkpoint.h"
#include "mcts/any_search.h"
#include "mcts/chance.h"
#include "mcts/games/game_2048.h"
#include "mcts/search/search.h"
#include "suites/all.h"
#include "suites/reinforcement/algorithms/td_afterstate.h"
#include "suites/reinforcement/train/agent.h"
#include "suites/reinforcement/train/session.h"
#include "suites/run/stored_model.h"

namespace mstrain::reinforcement {
namespace {

using Clock = std::chrono::steady_clock;
using mcts::Action;
using mcts::Budget;
using mcts::Game2048;

struct Played {
  double mean = 0, error = 0;  // points
  double microseconds = 0;     // of a move
  int64_t most = 0;            // points of the best game
};

using Chooser = std::function<Action(const Game2048& state)>;

Played play(int64_t games, const Chooser& choose) {
  std::vector<double> scores;
  int64_t moves = 0;
  double seconds = 0;
  Played out;
  for (int64_t game = 0; game < games; ++game) {
    Game2048 state;
    mcts::Random random(static_cast<uint64_t>(game), 0);
    double score = 0;
    while (state.player() != mcts::kTerminal) {
      if (state.player() == mcts::kChance) {
        state.apply(state.sample_chance(random));
        continue;
      }
      const auto begin = Clock::now();
      const Action action = choose(state);
      seconds += std::chrono::duration<double>(Clock::now() - begin).count();
      ++moves;
      state.apply(action);
      score += state.rewards()[0] / Game2048::kPoint;
    }
    scores.push_back(score);
    out.most = std::max(out.most, static_cast<int64_t>(score));
  }
  for (const double score : scores) {
    out.mean += score / static_cast<double>(games);
  }
  for (const double score : scores) {
    out.error += (score - out.mean) * (score - out.mean);
  }
  out.error = std::sqrt(out.error / static_cast<double>(games * std::max<int64_t>(games - 1, 1)));
  out.microseconds = seconds / static_cast<double>(moves) * 1e6;
  return out;
}

void show(const std::string& who, const Played& played) {
  fmt::print("{:<34} {:>9.0f} ± {:>6.0f} points, best {:>7}, {:>8.1f} us a move\n", who,
             played.mean, played.error, played.most, played.microseconds);
  std::fflush(stdout);
}

Played uct(int64_t games, double microseconds) {
  mcts::Search<Game2048> search({.memory_limit = int64_t{1} << 26});
  return play(games, [&](const Game2048& state) {
    mcts::RandomRollout rollout;
    return search.run(state, rollout, Budget::milliseconds(microseconds / 1000)).action.value();
  });
}

int run(const std::string& path, int64_t games, double milliseconds) {
  add_all_models();
  FileSystem& files = real_files();
  const std::string folder = find_checkpoint(files, path);
  const std::string description = join_path(folder, kPlayedFile);
  const Config config =
      read_reinforcement(parse_yaml(files.read(description, 1 << 20), description));
  const auto& algorithm = dynamic_cast<const TdAfterstate&>(*config.algorithm);
  AfterstateValues values(algorithm, config.environment.env.called());
  const Params params = init_params(values.network().specs(), 0);
  load_tensors(files, folder, kModelFile, stored(params));
  values.bind(params);

  const Played greedy = play(games, [&](const Game2048& state) {
    return static_cast<Action>(values.best(mcts::any_game(state)).action);
  });
  show("values alone", greedy);
  const Played hurried = uct(games, greedy.microseconds);
  show("UCT, the same time", hurried);
  mcts::AnyEvaluator<mcts::AnyGame> evaluator(values);
  const Played searched = play(games, [&](const Game2048& state) {
    const mcts::AnyGame root = mcts::any_game(state);
    const auto search =
        mcts::any_searches().make("puct", algorithm.search_config(0, values.best(root).total));
    search->set_root(root);
    return search->run(evaluator, Budget::milliseconds(milliseconds)).action.value();
  });
  show(fmt::format("search of the values, {} ms", milliseconds), searched);
  const Played patient = uct(games, searched.microseconds);
  show("UCT, the same time", patient);
  fmt::print("ratio: values alone {:.1f}, with a search {:.1f} times UCT's points\n",
             greedy.mean / hurried.mean, searched.mean / patient.mean);
  return 0;
}

}  // namespace
}  // namespace mstrain::reinforcement

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: td_2048_vs_uct run [games=20] [milliseconds=0.25]\n");
    return 2;
  }
  return mstrain::reinforcement::run(argv[1], argc > 2 ? std::atoll(argv[2]) : 20,
                                     argc > 3 ? std::atof(argv[3]) : 0.25);
}
