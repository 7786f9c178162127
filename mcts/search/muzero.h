// Search over a learned model, many roots at once (Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with
// a learned model", Nature 2020; with gumbel: Danihelka et al., ICLR 2022; sampled actions: Hubert et al., ICML 2021; chance:
// Antonoglou et al., ICLR 2022).
//
// There is no game here: a node is a hidden state that the caller keeps, numbered 0 (root) to `simulations` in each tree.
// Each round, gather() names for every root a node and an action; the caller runs its recurrent network on those hidden
// states, stores the new hidden states under the next number, and hands rewards, values and policy logits to scatter().
//
//   MuZeroSearch search({.roots = 256, .actions = 18, .simulations = 50});
//   search.set_roots(logits, values);                       // [256, 18], [256]
//   for (int64_t s = 0; s < 50; ++s) {
//     search.gather(nodes, actions);                        // [256] each
//     network(hidden rows (root, nodes[root]), actions) -> hidden rows (root, s + 1), rewards, values, logits
//     search.scatter(rewards, values, logits);              // [256], [256], [256, 18]
//   }
//   search.visits(0), search.policy(0), search.value(0), search.best_action(0)
//
// With chance_codes an action leads to an afterstate, a node too, and from there chance leads on by a code, which gather() names as
// action `actions` + code. Answers then have actions + chance_codes logits, of which those of the codes are read where the new node
// is an afterstate, else those of the actions. An afterstate has a value, and no reward: that comes with the code.
//
// Values are seen by the player to move at their node, rewards by the player who moved. Selection works on values that are
// scaled to [0, 1] by the least and greatest seen in the tree. The work of a simulation grows with the actions visited, not
// with the actions there are: logits are copied once, softmax is taken when a node is first left, and among unvisited actions only
// the most probable one is looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/config.h"
#include "core/base/thread_pool.h"
#include "mcts/random.h"

namespace mstrain::mcts {

struct MuZeroConfig {
  int64_t roots = 1;
  int64_t actions = 2;  // with sampled actions: how many are sampled at a node
  int64_t simulations = 50;
  int64_t players = 1;  // 2: they alternate, and results sum to zero
  double discount = 1;
  double c1 = 1.25;  // PUCT: c1 + log((N + c2 + 1) / c2)
  double c2 = 19652;
  double noise_fraction = 0;  // of Dirichlet noise in the root's priors
  double noise_alpha = 0.3;
  bool gumbel = false;  // root by sequential halving, inner nodes by the improved policy
  int64_t gumbel_considered = 16;
  double gumbel_visit = 50;
  double gumbel_scale = 0.1;
  double gumbel_spread = 0;
  int64_t action_size =
      0;  // > 0: floats of an action; actions are then sampled by the network at each node
  int64_t chance_codes = 0;
  uint64_t seed = 0;
  int64_t threads = 1;

  int64_t width() const { return actions + chance_codes; }  // of logits

  template <class V>
  void fields(V& v) {
    v("roots", roots, "searched at once", rule::at_least(1));
    v("actions", actions, "of a node", rule::at_least(1));
    v("simulations", simulations, "from each root", rule::at_least(1));
    v("players", players, "2: they alternate, and results sum to zero",
      rule::at_least(1).at_most(2));
    v("discount", discount, "of rewards", rule::above(0).at_most(1));
    v("c1", c1, "PUCT: c1 + log((N + c2 + 1) / c2)", rule::at_least(0));
    v("c2", c2, "PUCT: c1 + log((N + c2 + 1) / c2)", rule::positive());
    v("noise_fraction", noise_fraction, "of Dirichlet noise at the root",
      rule::at_least(0).at_most(1));
    v("noise_alpha", noise_alpha, "of the Dirichlet noise", rule::positive());
    v("gumbel", gumbel, "root by sequential halving, inner nodes by the improved policy");
    v("gumbel_considered", gumbel_considered, "root actions that halving begins with",
      rule::at_least(1));
    v("gumbel_visit", gumbel_visit, "c_visit", rule::at_least(0));
    v("gumbel_scale", gumbel_scale, "c_scale", rule::at_least(0));
    v("gumbel_spread", gumbel_spread,
      "values of a node that lie closer together are not stretched to [0, 1]: it would make "
      "opinions of a learned value's noise",
      rule::at_least(0));
    v("action_size", action_size, "floats of a sampled action; 0: actions are numbers",
      rule::at_least(0));
    v("chance_codes", chance_codes, "outcomes of chance behind an action; 0: there is no chance",
      rule::at_least(0));
    v("seed", seed, "of everything random in the search");
    v("threads", threads, "that search", rule::at_least(1).at_most(1024));
  }
};

struct MuZeroTree;

class MuZeroSearch {
 public:
  explicit MuZeroSearch(const MuZeroConfig& config);  // throws ConfigError as check_config() does
  ~MuZeroSearch();
  MuZeroSearch(const MuZeroSearch&) = delete;
  MuZeroSearch& operator=(const MuZeroSearch&) = delete;

  // Begins anew. logits [roots, actions]: -infinity marks an illegal action; at least one in a row is finite. values [roots].
  // sampled [roots, actions, action_size] where actions are sampled, else empty.
  void set_roots(std::span<const float> logits, std::span<const float> values,
                 std::span<const float> sampled = {});
  // For each root the number of the node to go on from and the action to take there. `vectors` [roots, action_size] receives
  // the action itself where actions are sampled.
  void gather(std::span<uint32_t> nodes, std::span<uint32_t> actions,
              std::span<float> vectors = {});
  // The network's answers for the last gather(), logits [roots, width()]. Throws Error for sizes that do not fit and for numbers that
  // are not finite; of the logits that are read of a root, one is to be finite.
  void scatter(std::span<const float> rewards, std::span<const float> values,
               std::span<const float> logits, std::span<const float> sampled = {});

  int64_t done() const { return done_; }  // simulations since set_roots()
  // Of root `root`, for each action.
  std::vector<uint32_t> visits(int64_t root) const;
  std::vector<float> action_values(int64_t root) const;  // unscaled; 0 for unvisited actions
  std::vector<float> policy(
      int64_t root) const;          // gumbel: the improved policy; else visits / sum of visits
  float value(int64_t root) const;  // mean
  uint32_t best_action(int64_t root) const;  // gumbel: the winner of the halving; else most visited
  // Bytes of tree memory written and read in selection and expansion so far, counted where they are moved.
  uint64_t bytes_moved() const;

 private:
  template <class Body>
  void for_each_root(const Body& body);
  const MuZeroTree& searched(int64_t root) const;

  MuZeroConfig config_;
  std::vector<std::unique_ptr<MuZeroTree>> trees_;
  std::unique_ptr<ThreadPool> pool_;
  int64_t done_ = 0;
  uint64_t games_ = 0;
  bool started_ = false;
  bool gathered_ = false;
};

// A network as this search wants it. Rows are batched; hidden states have hidden_size() floats.
class RecurrentEvaluator {
 public:
  virtual ~RecurrentEvaluator() = default;
  virtual int64_t hidden_size() const = 0;
  // From hidden [count, hidden] and actions [count], as gather() names them (vectors [count, action_size] where sampled), to the rest.
  virtual void recurrent(int64_t count, std::span<const float> hidden,
                         std::span<const uint32_t> actions, std::span<const float> vectors,
                         std::span<float> next_hidden, std::span<float> rewards,
                         std::span<float> values, std::span<float> logits,
                         std::span<float> sampled) = 0;
};

// Runs all simulations: set_roots() must have been called; root_hidden [roots, hidden].
void run_muzero(MuZeroSearch& search, const MuZeroConfig& config, RecurrentEvaluator& network,
                std::span<const float> root_hidden);

}  // namespace mstrain::mcts
