// What a search is told: parameters, budget, and what it answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"

namespace mstrain::mcts {

// How one search uses threads.
//   serial         one tree, one thread. Bit-reproducible.
//   root           a tree for each of `trees`, merged at the end. Bit-reproducible for any number of threads.
//   leaf           one tree; each leaf is evaluated `leaf_evaluations` times at once. Bit-reproducible.
//   tree           one tree, all threads in it without locks. Fast, not reproducible. Where the evaluator is not for several
//                  threads at once (a network), they fill one batch of `batch` leaves together.
//   deterministic  one tree; `batch` leaves are gathered in a fixed order under virtual loss, evaluated by all threads and
//                  backed up in that order. Bit-reproducible for any number of threads.
//   batched        many roots, one evaluator batch: BatchSearch and self_play(), not Search. Bit-reproducible for any number
//                  of threads
enum class Parallelism { kSerial, kRoot, kLeaf, kTree, kDeterministic, kBatched };

// What an edge counts as before its first visit: more than any other, its parent's value, that less first_play_reduction *
// sqrt(share of the priors visited), -1, or 0. kDefault is infinite for UCB1 and reduced for PUCT; selections that have a
// rule of their own take nothing else.
enum class FirstPlay { kDefault, kInfinite, kParent, kReduced, kLoss, kDraw };

struct SearchConfig {
  uint64_t seed = 0;

  double uct_c = 2;
  double puct_c = 1.25;
  double puct_base = 19652;
  FirstPlay first_play = FirstPlay::kDefault;
  double first_play_reduction = 0.25;
  double rave_equivalence =
      300;  // visits at which the direct estimate weighs as much as RAVE's (k of beta)
  double epsilon = 0.1;

  double noise_fraction = 0;  // of Dirichlet noise in the root's priors
  double noise_alpha = 0;     // 0: 10 / number of actions
  int64_t gumbel_considered = 16;
  double gumbel_visit = 50;  // c_visit, c_scale of the value transform
  double gumbel_scale = 0.1;

  double widening_k = 1;  // children open at N visits: k * N^alpha
  double widening_alpha = 0.5;

  double discount = 1;
  bool solve = false;

  Parallelism parallelism = Parallelism::kSerial;
  int64_t threads = 1;
  int64_t trees = 0;  // root: 0 is one for each thread
  int64_t leaf_evaluations = 4;
  int64_t batch = 16;                       // deterministic; tree with a network
  double virtual_loss = 1;                  // what a visit under way counts as lost
  int64_t max_collisions = 0;               // in one gather; 0: as many as leaves asked for
  int64_t memory_limit = int64_t{1} << 30;  // bytes of tree, for each tree
  bool huge_pages = false;

  bool operator==(const SearchConfig&) const = default;

  template <class V>
  void fields(V& v) {
    v("seed", seed, "of everything random in the search");
    v("uct_c", uct_c, "exploration of UCB1 and RAVE", rule::at_least(0));
    v("puct_c", puct_c, "exploration of PUCT", rule::at_least(0));
    v("puct_base", puct_base, "visits at which PUCT's exploration begins to grow",
      rule::positive());
    v("first_play", first_play,
      "value of an unvisited edge; default: infinite for uct, reduced for puct",
      rule::one_of({"default", "infinite", "parent", "reduced", "loss", "draw"}));
    v("first_play_reduction", first_play_reduction, "for first_play: reduced", rule::at_least(0));
    v("rave_equivalence", rave_equivalence, "visits at which RAVE and UCT weigh alike",
      rule::positive());
    v("epsilon", epsilon, "probability of a random action", rule::at_least(0).at_most(1));
    v("noise_fraction", noise_fraction, "of Dirichlet noise at the root",
      rule::at_least(0).at_most(1));
    v("noise_alpha", noise_alpha, "of the Dirichlet noise; 0: 10 / actions", rule::at_least(0));
    v("gumbel_considered", gumbel_considered, "root actions that sequential halving begins with",
      rule::at_least(1));
    v("gumbel_visit", gumbel_visit, "c_visit of Gumbel search", rule::at_least(0));
    v("gumbel_scale", gumbel_scale, "c_scale of Gumbel search", rule::at_least(0));
    v("widening_k", widening_k, "children open at N visits: k * N^alpha", rule::positive());
    v("widening_alpha", widening_alpha, "children open at N visits: k * N^alpha",
      rule::at_least(0).at_most(1));
    v("discount", discount, "of rewards", rule::above(0).at_most(1));
    v("solve", solve, "propagate proven values");
    v("parallelism", parallelism, "how threads are used",
      rule::one_of({"serial", "root", "leaf", "tree", "deterministic", "batched"}));
    v("threads", threads, "that search", rule::at_least(1).at_most(1024));
    v("trees", trees, "of root parallelism; 0: one for each thread", rule::at_least(0));
    v("leaf_evaluations", leaf_evaluations, "of each leaf in leaf parallelism", rule::at_least(1));
    v("batch", batch, "leaves of one batch: deterministic, or tree with a network",
      rule::at_least(1));
    v("virtual_loss", virtual_loss, "what a visit under way counts as lost", rule::at_least(0));
    v("max_collisions", max_collisions, "of one gather; 0: as many as leaves", rule::at_least(0));
    v("memory_limit", memory_limit, "bytes of each tree",
      rule::at_least(1 << 16).at_most(static_cast<double>(int64_t{1} << 34U)));
    v("huge_pages", huge_pages, "ask the kernel for huge pages");
  }
};

// Throws ConfigError where a number is not what fields() says of it: each search asks when it is made.
void check_search(const SearchConfig& config);

// When to stop: whichever comes first of those that are set. At least one must be.
struct Budget {
  int64_t simulations = 0;  // 0: not limited. Counts this run, not the visits of a reused tree
  std::optional<std::chrono::nanoseconds> time;
  int64_t stable =
      0;  // stop when the most visited action has led for so many simulations; 0: do not

  bool operator==(const Budget&) const = default;

  static Budget sims(int64_t n) { return {.simulations = n}; }
  static Budget milliseconds(double ms) {
    return {.time = std::chrono::nanoseconds(static_cast<int64_t>(ms * 1e6))};
  }
};

// Why a run ended.
enum class Stop { kSimulations, kTime, kStable, kSolved };

template <class A>
struct RootEdge {
  A action{};
  uint64_t visits = 0;
  double value = 0;  // mean (proven value where proven) for the player to move at the root
  double prior = 0;  // 0 where the search uses none
  bool proven = false;
  double weight =
      0;  // share in the improved policy: sums to 1; visits / sum of visits unless Gumbel's
  // What `solve` has shown the value to lie between.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

struct SearchCounters {
  uint64_t simulations = 0;  // descents that were backed up
  uint64_t evaluations = 0;  // leaves given to the evaluator
  uint64_t batches = 0;      // calls of the evaluator
  uint64_t collisions = 0;   // descents that met a leaf whose evaluation was under way
  uint64_t expansions = 0;
  uint64_t prunings = 0;
  uint64_t depth_sum = 0;  // of the descents backed up
  uint32_t max_depth = 0;
  double seconds = 0;
};

template <class A, int kPlayers>
struct SearchResult {
  // None at a chance node, and before the root was evaluated, which the first simulation does.
  std::optional<A> action;
  double value = 0;  // of the root for the player to move
  std::vector<RootEdge<A>> edges;
  // `action`, then the most visited actions, up to a chance node.
  std::vector<A> principal_variation;
  SearchCounters counters;
  uint64_t nodes = 0;  // edges in the tree and its root
  uint64_t tree_bytes = 0;
  Stop stop = Stop::kSimulations;
  bool proven = false;  // `value` is the game's
};

}  // namespace mstrain::mcts
