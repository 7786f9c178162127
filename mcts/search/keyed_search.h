// Search in a table of nodes that are found by a key instead of by the way that led there:
//   information sets   hidden information is sampled anew for each simulation, and a node belongs to what its player can
//                      see (Cowling, Powley, Whitehouse, "Information set Monte Carlo tree search", 2012)
//   open loop          a node belongs to the actions that were decided, whatever chance did in between (Perez et al., 2015)
// Actions of a node are the union of those that were legal in any state that met it; an action is scored by how often it was
// available. Exploration is UCB1's (Cowling's form with availability).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "mcts/chance.h"
#include "mcts/eval_batch.h"
#include "mcts/search/config.h"
#include "mcts/search/pacer.h"

namespace mstrain::mcts {

enum class Keying { kInformation, kOpenLoop };

template <GameState S, Keying kKeying>
class KeyedSearch {
 public:
  using A = ActionOf<S>;
  using Values = ReturnsOf<S>;
  using Result = SearchResult<A, S::kPlayers>;

  explicit KeyedSearch(const SearchConfig& config) : config_(config), random_(config.seed) {
    check_search(config);
    check(config.parallelism == Parallelism::kSerial,
          "search: information sets and open loop are searched serially");
    check(!config.solve,
          "search.solve: proven values need a game without hidden information and chance");
    check(config.first_play == FirstPlay::kDefault || config.first_play == FirstPlay::kInfinite,
          "search.first_play: information sets and open loop try every action before another one "
          "twice");
  }

  // Searches for the player to move at `root`. With information sets only what that player knows of `root` is used: hidden
  // parts are sampled by root.determinize().
  template <Evaluator<S> E>
  Result run(const S& root, E& evaluator, const Budget& budget);

  // Visit shares of the actions at the information set of a state that was met below the last root; empty where none was.
  std::vector<std::pair<A, double>> policy(const S& state) const;

 private:
  struct EdgeInfo {
    A action;
    uint64_t visits = 0;
    uint64_t available = 0;
    double sum = 0;
  };
  struct Node {
    uint64_t visits = 0;
    std::vector<EdgeInfo> edges;
  };
  struct Step {
    Node* node;  // stable: unordered_map keeps its elements in place
    uint32_t edge;
    int player;
    Values reward;
  };

  static uint64_t key_of(const S& state, uint64_t path) {
    if constexpr (kKeying == Keying::kInformation) {
      return hash_combine(static_cast<uint64_t>(state.player()),
                          state.information_key(state.player()));
    } else {
      return path;
    }
  }

  void pass_chance(S& state, std::vector<Step>& steps);
  uint32_t choose(Node& node);
  static uint32_t most_visited(const Node& node) {
    const auto best =
        std::max_element(node.edges.begin(), node.edges.end(),
                         [](const EdgeInfo& a, const EdgeInfo& b) { return a.visits < b.visits; });
    return static_cast<uint32_t>(best - node.edges.begin());
  }
  // What the table takes: its nodes with their share of buckets and heap blocks, and room for their edges.
  size_t bytes() const {
    constexpr size_t kOverhead = 4 * sizeof(void*);
    return nodes_.size() * (sizeof(std::pair<const uint64_t, Node>) + kOverhead) +
           edge_room_ * sizeof(EdgeInfo);
  }
  // Drops the least visited nodes, about half of the memory, but never that of `root`.
  void prune(uint64_t root);

  SearchConfig config_;
  Random random_;
  std::unordered_map<uint64_t, Node> nodes_;
  size_t edge_room_ = 0;  // of all nodes
  ActionBufferOf<S> legal_;
  ChanceBufferOf<S> outcomes_;
  std::vector<uint32_t> open_;  // edges of the present node that are legal in the present state
  Random rng_;
  uint64_t simulation_ = 0;
};

template <GameState S>
using InformationSearch = KeyedSearch<S, Keying::kInformation>;
template <GameState S>
using OpenLoopSearch = KeyedSearch<S, Keying::kOpenLoop>;

// Chance pays into the step before it.
template <GameState S, Keying kKeying>
void KeyedSearch<S, kKeying>::pass_chance(S& state, std::vector<Step>& steps) {
  while (state.player() == kChance) {
    state.apply(draw_chance(state, outcomes_, rng_));
    if constexpr (HasRewards<S>) {
      if (!steps.empty()) {
        const Values paid = state.rewards();
        for (int p = 0; p < S::kPlayers; ++p) {
          steps.back().reward[p] += paid[p];
        }
      }
    }
  }
}

// An untried legal action first, then UCB1 with each edge's own availability.
template <GameState S, Keying kKeying>
uint32_t KeyedSearch<S, kKeying>::choose(Node& node) {
  open_.clear();
  uint32_t untried = 0;
  for (const A& a : legal_) {
    uint32_t i = 0;
    while (i < node.edges.size() && !(node.edges[i].action == a)) {
      ++i;
    }
    if (i == node.edges.size()) {
      edge_room_ -= node.edges.capacity();
      node.edges.push_back({.action = a});
      edge_room_ += node.edges.capacity();
    }
    ++node.edges[i].available;
    untried += node.edges[i].visits == 0 ? 1 : 0;
    open_.push_back(i);
  }
  if (untried > 0) {
    uint32_t pick = rng_.below(untried);
    for (const uint32_t i : open_) {
      if (node.edges[i].visits == 0 && pick-- == 0) {
        return i;
      }
    }
  }
  uint32_t best = open_[0];
  double best_score = -std::numeric_limits<double>::infinity();
  for (const uint32_t i : open_) {
    const EdgeInfo& e = node.edges[i];
    const auto visits = static_cast<double>(e.visits);
    const auto available = static_cast<double>(std::max<uint64_t>(1, e.available));
    const double score = e.sum / visits + config_.uct_c * std::sqrt(std::log(available) / visits);
    if (score > best_score) {
      best_score = score;
      best = i;
    }
  }
  return best;
}

template <GameState S, Keying kKeying>
template <Evaluator<S> E>
typename KeyedSearch<S, kKeying>::Result KeyedSearch<S, kKeying>::run(const S& root, E& evaluator,
                                                                      const Budget& budget) {
  if constexpr (kKeying == Keying::kInformation) {
    static_assert(HasInformation<S>, "information sets need determinize() and information_key()");
  }
  const int mover = root.player();
  check(mover >= 0, "search: run() needs a state with a player to move");
  nodes_.clear();
  edge_room_ = 0;
  Pacer pacer(budget);
  Result result;
  const uint64_t root_key = key_of(root, 0);
  std::vector<Step> steps;
  bool more = true;
  do {
    rng_ = random_.split(simulation_++);
    steps.clear();
    S state = root;
    if constexpr (kKeying == Keying::kInformation) {
      state.determinize(mover, rng_);
      check(state.player() == mover, "game: determinize({}) changed the player to move", mover);
    }
    uint64_t path = 0;
    Values value{};
    for (;;) {
      pass_chance(state, steps);
      const int player = state.player();
      if (player == kTerminal) {
        value = state.returns();
        break;
      }
      Node& node = nodes_[key_of(state, path)];
      if (node.visits++ == 0) {
        EvalItem<S> item;
        item.state = &state;
        item.rng = rng_.split(0);
        EvalBatch<S> batch{{&item, 1}};
        evaluator.evaluate(batch);
        for (const float v : item.values) {
          check(std::isfinite(v), "evaluator: a value is {}", v);
        }
        value = item.values;
        ++result.counters.evaluations;
        break;
      }
      legal_.clear();
      state.legal(legal_);
      check(!legal_.empty(), "game: player {} is to move and has no legal action", player);
      const uint32_t edge = choose(node);
      steps.push_back({&node, edge, player, {}});
      path = hash_combine(path, edge);
      state.apply(node.edges[edge].action);
      if constexpr (HasRewards<S>) {
        steps.back().reward = state.rewards();
      }
    }
    for (size_t i = steps.size(); i > 0; --i) {
      const Step& step = steps[i - 1];
      for (int p = 0; p < S::kPlayers; ++p) {
        value[p] = step.reward[p] + static_cast<float>(config_.discount) * value[p];
      }
      EdgeInfo& e = step.node->edges[step.edge];
      ++e.visits;
      e.sum += static_cast<double>(value[step.player]);
    }
    ++result.counters.simulations;
    result.counters.depth_sum += steps.size();
    result.counters.max_depth =
        std::max(result.counters.max_depth, static_cast<uint32_t>(steps.size()));
    if (bytes() > static_cast<size_t>(config_.memory_limit)) {
      prune(root_key);
      ++result.counters.prunings;
    }
    more = pacer.go_on(1);
    if (more && pacer.wants_leader()) {
      more = !pacer.stable(most_visited(nodes_[root_key]));
    }
  } while (more);
  result.stop = pacer.stop();
  result.counters.seconds = pacer.seconds();
  result.nodes = nodes_.size();
  result.tree_bytes = bytes();
  double total = 0;
  for (const EdgeInfo& e : nodes_[root_key].edges) {
    const auto visits = static_cast<double>(e.visits);
    result.edges.push_back(
        {.action = e.action, .visits = e.visits, .value = e.visits > 0 ? e.sum / visits : 0});
    result.value += e.sum;
    total += visits;
  }
  result.value = total > 0 ? result.value / total : 0;
  for (RootEdge<A>& e : result.edges) {
    e.weight = total > 0 ? static_cast<double>(e.visits) / total : 0;
  }
  if (!result.edges.empty()) {
    result.action = result.edges[most_visited(nodes_[root_key])].action;
    result.principal_variation = {*result.action};
  }
  return result;
}

template <GameState S, Keying kKeying>
void KeyedSearch<S, kKeying>::prune(uint64_t root) {
  std::vector<uint64_t> visits;
  visits.reserve(nodes_.size());
  for (const auto& [key, node] : nodes_) {
    visits.push_back(node.visits);
  }
  const auto middle = visits.begin() + static_cast<ptrdiff_t>(visits.size() / 2);
  std::nth_element(visits.begin(), middle, visits.end());
  const uint64_t least = *middle;
  size_t equal = visits.size() / 2;  // of those visited exactly as often, the half is filled up
  for (const auto& [key, node] : nodes_) {
    equal -= node.visits < least ? 1 : 0;
  }
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const uint64_t n = node->second.visits;
    const bool drop = node->first != root && (n < least || (n == least && equal > 0));
    if (drop) {
      equal -= n == least ? 1 : 0;
      edge_room_ -= node->second.edges.capacity();
      node = nodes_.erase(node);
    } else {
      ++node;
    }
  }
}

template <GameState S, Keying kKeying>
std::vector<std::pair<ActionOf<S>, double>> KeyedSearch<S, kKeying>::policy(const S& state) const {
  static_assert(kKeying == Keying::kInformation, "an open-loop node has no state");
  std::vector<std::pair<A, double>> shares;
  const auto node = nodes_.find(key_of(state, 0));
  if (node != nodes_.end()) {
    double total = 0;
    for (const EdgeInfo& e : node->second.edges) {
      total += static_cast<double>(e.visits);
    }
    for (const EdgeInfo& e : node->second.edges) {
      shares.emplace_back(e.action, total > 0 ? static_cast<double>(e.visits) / total : 0);
    }
  }
  return shares;
}

}  // namespace mstrain::mcts
