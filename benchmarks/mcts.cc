// What the search library costs. Modes:
//   uct GAME SIMS SEED    one thread, JSON: simulations_per_second, bytes_per_node (raced with a peer by mcts_uct.py)
//   tree                  two threads in one tree against one, connect four; beside it one thread that works by subtrees
//                         too, and two searches that share nothing: what the machine gives two threads
//   muzero                a tree step over a learned model, 18 and 362 actions, no network
//   selfplay              batched self-play with an evaluator that takes 1 ms for 256 leaves: its busy share
// Ratios are medians over alternating rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "mcts/evaluators.h"
#include "mcts/games/connect_four.h"
#include "mcts/games/tic_tac_toe.h"
#include "mcts/search/muzero.h"
#include "mcts/search/search.h"
#include "mcts/search/self_play.h"

namespace mstrain::mcts {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

template <class S>
void uct(const std::string& name, int64_t simulations, uint64_t seed) {
  RandomRollout rollout;
  Search<S> warm({.seed = seed});
  warm.run(S{}, rollout, Budget::sims(simulations / 10));
  Search<S> search({.seed = seed, .uct_c = 2});
  const auto begin = Clock::now();
  const auto result = search.run(S{}, rollout, Budget::sims(simulations));
  const double seconds = seconds_since(begin);
  std::printf(
      "{\"game\": \"%s\", \"simulations\": %ld, \"simulations_per_second\": %.0f, "
      "\"bytes_per_node\": %.3f}\n",
      name.c_str(), static_cast<long>(simulations), static_cast<double>(simulations) / seconds,
      static_cast<double>(result.tree_bytes) / static_cast<double>(result.nodes));
}

double tree_rate(Parallelism parallelism, int64_t threads, int64_t simulations) {
  SearchConfig config{.seed = 1, .uct_c = 2};
  config.parallelism = parallelism;
  config.threads = threads;
  RandomRollout rollout;
  Search<ConnectFour> search(config);
  const auto begin = Clock::now();
  search.run(ConnectFour{}, rollout, Budget::sims(simulations));
  return static_cast<double>(simulations) / seconds_since(begin);
}

double independent_rate(int64_t simulations) {
  const auto begin = Clock::now();
  std::thread other([&] { tree_rate(Parallelism::kSerial, 1, simulations); });
  tree_rate(Parallelism::kSerial, 1, simulations);
  other.join();
  return 2 * static_cast<double>(simulations) / seconds_since(begin);
}

void tree() {
  for (const int64_t simulations : {100'000, 1'000'000}) {
    std::vector<double> ratios;
    std::vector<double> limits;
    std::vector<double> alone;
    std::vector<double> one;
    std::vector<double> two;
    for (int round = 0; round < 9; ++round) {
      one.push_back(tree_rate(Parallelism::kSerial, 1, simulations));
      two.push_back(tree_rate(Parallelism::kTree, 2, simulations));
      ratios.push_back(two.back() / one.back());
      alone.push_back(tree_rate(Parallelism::kTree, 1, simulations) / one.back());
      limits.push_back(independent_rate(simulations) / one.back());
    }
    std::printf(
        "connect four, %ldk simulations, uct_c 2, one rollout: serial %.2f M/s, tree with 2 "
        "threads %.2f M/s, ratio %.2f; tree with 1 thread: %.2f; two searches that share nothing: "
        "%.2f\n",
        static_cast<long>(simulations / 1000), median(one) / 1e6, median(two) / 1e6, median(ratios),
        median(alone), median(limits));
  }
}

struct Step {
  double nanoseconds;
  double bytes;
};

// The network's outputs are ready-made rows, as in a driver that times the tree alone.
Step muzero_step(int64_t roots, int64_t actions, int64_t simulations) {
  MuZeroConfig config{
      .roots = roots, .actions = actions, .simulations = simulations, .discount = 0.997};
  MuZeroSearch search(config);
  Random rng(3);
  std::vector<std::vector<float>> logits(8, std::vector<float>(roots * actions));
  std::vector<std::vector<float>> values(8, std::vector<float>(roots));
  for (int k = 0; k < 8; ++k) {
    std::generate(logits[k].begin(), logits[k].end(),
                  [&] { return static_cast<float>(rng.normal()); });
    std::generate(values[k].begin(), values[k].end(),
                  [&] { return static_cast<float>(rng.normal()); });
  }
  std::vector<uint32_t> nodes(roots);
  std::vector<uint32_t> taken(roots);
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto begin = Clock::now();
    search.set_roots(logits[0], values[0]);
    for (int64_t s = 0; s < simulations; ++s) {
      search.gather(nodes, taken);
      search.scatter(values[(s + 1) & 7], values[(s + 3) & 7], logits[s & 7]);
    }
    best = std::min(best, seconds_since(begin));
  }
  const auto steps = static_cast<double>(roots * simulations);
  return {best / steps * 1e9, static_cast<double>(search.bytes_moved()) / 5 / steps};
}

void muzero() {
  std::vector<double> ratios;
  Step small{};
  Step large{};
  for (int round = 0; round < 5; ++round) {
    small = muzero_step(256, 18, 50);
    large = muzero_step(64, 362, 200);
    ratios.push_back(large.nanoseconds / small.nanoseconds);
  }
  const auto row = [](const char* what, const Step& s) {
    std::printf("%s: %.3f M simulations/s, %.0f ns and %.0f bytes a simulation\n", what,
                1e3 / s.nanoseconds, s.nanoseconds, s.bytes);
  };
  row("256 roots x 50 simulations, 18 actions", small);
  row("64 roots x 200 simulations, 362 actions", large);
  std::printf("ratio %.2f\n", median(ratios));
}

// Takes a millisecond for up to 256 leaves, as a device does while the host is free.
struct OneMillisecond {
  static constexpr bool kPriors = true;
  int64_t batches = 0;
  int64_t leaves = 0;
  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    const auto end = Clock::now() + std::chrono::milliseconds(1);
    ++batches;
    leaves += static_cast<int64_t>(batch.items.size());
    for (auto& item : batch.items) {
      const uint64_t h = item.state->hash();
      item.values = {static_cast<float>(h % 200) / 100.0F - 1,
                     1 - static_cast<float>(h % 200) / 100.0F};
      std::fill(item.priors.begin(), item.priors.end(), 1.0F);
    }
    while (Clock::now() < end) {
    }
  }
};

void selfplay() {
  OneMillisecond evaluator;
  SelfPlayOptions options{.batch = {.trees = 768, .groups = 3, .threads = 1},
                          .games = 768,
                          .simulations = 64,
                          .max_moves = 12};
  double busy = 0;
  const std::function<ConnectFour(int64_t)> start = [](int64_t) { return ConnectFour{}; };
  int64_t moves = 0;
  const SearchCounters counters = self_play<PuctPolicies, ConnectFour>(
      {.seed = 1, .noise_fraction = 0.25}, options, start, evaluator,
      [&](PlayedGame<ConnectFour>&& game) { moves += static_cast<int64_t>(game.moves.size()); },
      &busy);
  std::printf(
      "connect four, 768 games in 3 groups of 256, 64 simulations a move, 1 ms a batch: evaluator "
      "busy %.1f %%, "
      "mean batch %.0f, %.0f simulations/s, %.0f moves/s\n",
      100 * busy, static_cast<double>(evaluator.leaves) / static_cast<double>(evaluator.batches),
      static_cast<double>(counters.simulations) / counters.seconds,
      static_cast<double>(moves) / counters.seconds);
}

int run(const std::vector<std::string>& args) {
  const std::string mode = args.empty() ? "" : args[0];
  if (mode == "uct" && args.size() == 4) {
    const int64_t simulations = std::stoll(args[2]);
    const uint64_t seed = std::stoull(args[3]);
    if (args[1] == "connect_four") {
      uct<ConnectFour>(args[1], simulations, seed);
      return 0;
    }
    if (args[1] == "tic_tac_toe") {
      uct<TicTacToe>(args[1], simulations, seed);
      return 0;
    }
  } else if (mode == "tree") {
    tree();
    return 0;
  } else if (mode == "muzero") {
    muzero();
    return 0;
  } else if (mode == "selfplay") {
    selfplay();
    return 0;
  }
  std::fprintf(
      stderr,
      "usage: bench_mcts uct connect_four|tic_tac_toe SIMS SEED | tree | muzero | selfplay\n");
  return 2;
}

}  // namespace
}  // namespace mstrain::mcts

int main(int argc, char** argv) { return mstrain::mcts::run({argv + 1, argv + argc}); }
