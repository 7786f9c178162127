// Search in a graph: positions that are reached in several ways are one node. Edges count their visits, nodes know their
// value; a node's value is made of its children's values weighed by its own edges' visits, and never of sums that other
// parents changed. Source: D. Wu, KataGo, "Monte-Carlo graph search from first principles" (docs/GraphSearch.md).
//
// For games with hash() and without chance or kHistory; a position that repeats on the way down is not followed further, its value
// as known counts. At memory_limit the least visited nodes lose their edges: they keep their value and are evaluated again where a
// descent comes to them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mcts/eval_batch.h"
#include "mcts/search/config.h"
#include "mcts/search/pacer.h"
#include "mcts/search/policies.h"

namespace mstrain::mcts {

template <GameState S, class Select = Puct>
class GraphSearch {
 public:
  using A = ActionOf<S>;
  using Values = ReturnsOf<S>;
  using Result = SearchResult<A, S::kPlayers>;

  explicit GraphSearch(const SearchConfig& config)
      : config_(config), select_(config), random_(config.seed) {
    static_assert(HasHash<S>, "a graph search needs S::hash()");
    check_search(config);
    check(config.parallelism == Parallelism::kSerial, "search: graphs are searched serially");
    check(!config.solve, "search.solve: a graph proves no values");
  }

  // Throws Error where the game does not fit.
  void set_root(const S& root) {
    check(!has_history(root),
          "search: positions of this game depend on earlier ones, which a graph does not know; "
          "expected another policy than graph");
    root_.emplace(root);
    nodes_.clear();
    edges_.clear();
    places_.clear();
    root_node_ = node_of(root).first;
  }
  // Keeps every node that can still be reached.
  void advance(A action);
  bool has_root() const { return root_.has_value(); }

  template <Evaluator<S> E>
  Result run(const S& root, E& evaluator, const Budget& budget) {
    set_root(root);
    return run(evaluator, budget);
  }
  template <Evaluator<S> E>
  Result run(E& evaluator, const Budget& budget);

  size_t node_count() const { return nodes_.size(); }
  // Descents that met a node which another way had made.
  uint64_t transpositions() const { return transpositions_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct EdgeInfo {
    A action;
    uint32_t child = kNone;
    uint64_t visits = 0;
    float prior = 0;
    Values reward{};
  };
  struct Node {
    uint64_t key = 0;
    uint32_t begin = 0;  // edges
    uint32_t count = 0;
    uint64_t visits = 0;
    int8_t player = 0;
    bool on_path = false;
    Values own{};    // the evaluator's
    Values value{};  // own and children together
  };

  // The node of a state and whether it is new.
  std::pair<uint32_t, bool> node_of(const S& state) {
    const uint64_t key = state.hash();
    if (const auto place = places_.find(key); place != places_.end()) {
      return {place->second, false};
    }
    const auto index = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({.key = key, .player = static_cast<int8_t>(state.player())});
    places_.emplace(key, index);
    return {index, true};
  }
  size_t bytes() const {
    return nodes_.size() * (sizeof(Node) + 4 * sizeof(uint64_t)) + edges_.size() * sizeof(EdgeInfo);
  }

  template <class E>
  void evaluate(Node& node, const S& state, E& evaluator, SearchCounters& counters);
  template <class E>
  void descend(std::vector<uint32_t>& path, std::vector<uint32_t>& taken, E& evaluator,
               SearchCounters& counters);
  uint32_t choose(const Node& node) const;
  Values edge_value(const EdgeInfo& e) const {
    Values v = nodes_[e.child].value;
    for (int p = 0; p < S::kPlayers; ++p) {
      v[p] = e.reward[p] + static_cast<float>(config_.discount) * v[p];
    }
    return v;
  }
  void refresh(Node& node) const {
    Values sum = node.own;
    uint64_t visits = 1;
    for (uint32_t i = node.begin; i < node.begin + node.count; ++i) {
      const EdgeInfo& e = edges_[i];
      if (e.visits > 0) {
        const Values v = edge_value(e);
        for (int p = 0; p < S::kPlayers; ++p) {
          sum[p] += static_cast<float>(e.visits) * v[p];
        }
        visits += e.visits;
      }
    }
    for (int p = 0; p < S::kPlayers; ++p) {
      node.value[p] = sum[p] / static_cast<float>(visits);
    }
    node.visits = visits;
  }

  // Forgets the nodes that cannot be reached from `root`, and the edges of others with fewer visits.
  void rebuild(uint32_t root, uint64_t min_visits);
  void prune(SearchCounters& counters);
  uint32_t most_visited(const Node& node) const {
    uint32_t best = node.begin;
    for (uint32_t i = node.begin; i < node.begin + node.count; ++i) {
      best = edges_[i].visits > edges_[best].visits ? i : best;
    }
    return best;
  }

  void refresh_path(const std::vector<uint32_t>& path, const std::vector<uint32_t>& taken);

  SearchConfig config_;
  Select select_;
  Random random_;
  std::optional<S> root_;
  uint32_t root_node_ = 0;
  std::vector<Node> nodes_;
  std::vector<EdgeInfo> edges_;
  std::unordered_map<uint64_t, uint32_t> places_;
  ActionBufferOf<S> actions_;
  std::vector<float> priors_;
  uint64_t simulation_ = 0;
  uint64_t transpositions_ = 0;
};

template <GameState S, class Select>
template <class E>
void GraphSearch<S, Select>::evaluate(Node& node, const S& state, E& evaluator,
                                      SearchCounters& counters) {
  actions_.clear();
  state.legal(actions_);
  check(!actions_.empty(), "game: player {} is to move and has no legal action", node.player);
  priors_.assign(actions_.size(), 1.0F);
  EvalItem<S> item;
  item.state = &state;
  item.rng = random_.split(simulation_);
  if (gives_priors(evaluator)) {
    item.actions = actions_.span();
    item.priors = priors_;
  }
  EvalBatch<S> batch{{&item, 1}};
  evaluator.evaluate(batch);
  ++counters.evaluations;
  ++counters.batches;
  double total = 0;
  for (const float prior : priors_) {
    check(prior >= 0 && std::isfinite(prior), "evaluator: a prior is {}", prior);
    total += static_cast<double>(prior);
  }
  for (const float v : item.values) {
    check(std::isfinite(v), "evaluator: a value is {}", v);
  }
  node.own = item.values;
  node.begin = static_cast<uint32_t>(edges_.size());
  node.count = static_cast<uint32_t>(actions_.size());
  for (size_t i = 0; i < actions_.size(); ++i) {
    const double prior = total > 0 ? static_cast<double>(priors_[i]) / total
                                   : 1.0 / static_cast<double>(actions_.size());
    edges_.push_back({.action = actions_[i], .prior = static_cast<float>(prior)});
  }
}

template <GameState S, class Select>
uint32_t GraphSearch<S, Select>::choose(const Node& node) const {
  const auto mover = static_cast<size_t>(std::max<int>(node.player, 0));
  const typename Select::Node context = select_.node(static_cast<float>(node.visits));
  float seen = 0;
  float sum = 0;
  float visits = 0;
  for (uint32_t i = node.begin; i < node.begin + node.count; ++i) {
    const EdgeInfo& e = edges_[i];
    if (e.visits > 0) {
      seen += e.prior;
      visits += static_cast<float>(e.visits);
      sum += static_cast<float>(e.visits) * edge_value(e)[mover];
    }
  }
  uint32_t best = node.begin;
  float best_score = -std::numeric_limits<float>::infinity();
  for (uint32_t i = node.begin; i < node.begin + node.count; ++i) {
    const EdgeInfo& e = edges_[i];
    float score = std::numeric_limits<float>::infinity();
    if (e.visits > 0) {
      Edge<float> edge{};
      edge.visits = static_cast<float>(e.visits);
      edge.mean = edge_value(e)[mover];
      edge.inverse_root = 1 / square_root(edge.visits);
      edge.prior = e.prior;
      score = select_.score(edge, context);
    } else if constexpr (Select::kOpening == Opening::kBestPrior) {
      score = select_.unvisited(e.prior, visits > 0 ? sum / visits : 0.0F, seen, context);
    }
    if (score > best_score) {
      best_score = score;
      best = i;
    }
  }
  return best;
}

// From the root to a node that is new, the game's end or a repetition.
template <GameState S, class Select>
template <class E>
void GraphSearch<S, Select>::descend(std::vector<uint32_t>& path, std::vector<uint32_t>& taken,
                                     E& evaluator, SearchCounters& counters) {
  S state = *root_;
  path.assign(1, root_node_);
  taken.clear();
  for (;;) {
    Node& node = nodes_[path.back()];
    if (const int player = state.player(); node.player != player) [[unlikely]] {
      fail("game: states of equal hash() have player {} and player {} to move",
           static_cast<int>(node.player), player);
    }
    if (node.player == kTerminal) {
      node.own = node.value = state.returns();
      node.visits = 1;
      return;
    }
    check(node.player != kChance, "search: a graph has no chance nodes; use Search");
    if (node.count == 0) {
      evaluate(node, state, evaluator, counters);
      return;
    }
    const uint32_t edge = choose(node);
    node.on_path = true;
    state.apply(edges_[edge].action);
    taken.push_back(edge);
    if constexpr (HasRewards<S>) {
      edges_[edge].reward = state.rewards();
    }
    if (edges_[edge].child == kNone) {
      const auto [child, is_new] = node_of(state);
      edges_[edge].child = child;
      transpositions_ += is_new ? 0 : 1;
    }
    path.push_back(edges_[edge].child);
    if (nodes_[path.back()].on_path) {
      return;  // a repetition: its value as known
    }
  }
}

template <GameState S, class Select>
template <Evaluator<S> E>
typename GraphSearch<S, Select>::Result GraphSearch<S, Select>::run(E& evaluator,
                                                                    const Budget& budget) {
  check(root_.has_value() && root_->player() >= 0,
        "search: run() needs a root with a player to move");
  Pacer pacer(budget);
  Result result;
  bool more = true;
  std::vector<uint32_t> path;   // nodes
  std::vector<uint32_t> taken;  // edges
  do {
    try {
      descend(path, taken, evaluator, result.counters);
    } catch (...) {  // of the game or the evaluator: marks that stay would be taken for repetitions
      for (const uint32_t node : path) {
        nodes_[node].on_path = false;
      }
      throw;
    }
    refresh_path(path, taken);
    ++simulation_;
    ++result.counters.simulations;
    result.counters.depth_sum += taken.size();
    result.counters.max_depth =
        std::max(result.counters.max_depth, static_cast<uint32_t>(taken.size()));
    if (bytes() > static_cast<size_t>(config_.memory_limit)) {
      prune(result.counters);
    }
    more = pacer.go_on(1);
    if (more && pacer.wants_leader()) {
      const Node& root = nodes_[root_node_];
      more = !pacer.stable(most_visited(root) - root.begin);
    }
  } while (more);
  result.stop = pacer.stop();
  result.counters.seconds = pacer.seconds();
  result.nodes = nodes_.size();
  result.tree_bytes = bytes();
  const Node& root = nodes_[root_node_];
  result.value = static_cast<double>(root.value[static_cast<size_t>(root.player)]);
  Random rng = random_.split(~simulation_);
  std::vector<FinalEdge> finals;
  double total = 0;
  for (uint32_t i = root.begin; i < root.begin + root.count; ++i) {
    const EdgeInfo& e = edges_[i];
    const double value =
        e.visits > 0 ? static_cast<double>(edge_value(e)[static_cast<size_t>(root.player)]) : 0;
    result.edges.push_back({.action = e.action,
                            .visits = e.visits,
                            .value = value,
                            .prior = static_cast<double>(e.prior)});
    finals.push_back({static_cast<double>(e.visits), value, static_cast<double>(e.prior), false});
    total += static_cast<double>(e.visits);
  }
  for (RootEdge<A>& e : result.edges) {
    e.weight = total > 0 ? static_cast<double>(e.visits) / total : 0;
  }
  if (!finals.empty()) {
    uint32_t edge = root.begin + static_cast<uint32_t>(MostVisits(config_).choose(
                                     finals, max_return(*root_), min_return(*root_), rng));
    result.action = edges_[edge].action;
    result.principal_variation = {*result.action};
    while (edges_[edge].visits > 0 && nodes_[edges_[edge].child].count > 0 &&
           result.principal_variation.size() < 256) {
      edge = most_visited(nodes_[edges_[edge].child]);
      if (edges_[edge].visits == 0) {
        break;
      }
      result.principal_variation.push_back(edges_[edge].action);
    }
  }
  return result;
}

// Counts the edges taken and renews the values of the nodes from the leaf up.
template <GameState S, class Select>
void GraphSearch<S, Select>::refresh_path(const std::vector<uint32_t>& path,
                                          const std::vector<uint32_t>& taken) {
  for (size_t i = path.size(); i > 0; --i) {
    Node& node = nodes_[path[i - 1]];
    if (i - 1 < taken.size()) {
      ++edges_[taken[i - 1]].visits;
    }
    if (node.player != kTerminal) {
      refresh(node);
    }
    node.on_path = false;
  }
}

template <GameState S, class Select>
void GraphSearch<S, Select>::advance(A action) {
  check(root_.has_value(), "search: advance() before any run");
  actions_.clear();
  root_->legal(actions_);
  check(std::find(actions_.begin(), actions_.end(), action) != actions_.end(),
        "search: advance({}): not a legal action at the root", action_text(*root_, action));
  root_->apply(action);
  const auto start = places_.find(root_->hash());
  if (start == places_.end()) {
    const S root = *root_;
    set_root(root);
  } else {
    rebuild(start->second, 0);
  }
}

template <GameState S, class Select>
void GraphSearch<S, Select>::rebuild(uint32_t root, uint64_t min_visits) {
  const std::vector<Node> old_nodes = std::move(nodes_);
  const std::vector<EdgeInfo> old_edges = std::move(edges_);
  nodes_.clear();
  edges_.clear();
  places_.clear();
  std::vector<uint32_t> moved(old_nodes.size(), kNone);
  std::vector<uint32_t> order{root};
  moved[root] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    Node node = old_nodes[order[i]];
    const uint32_t begin = node.begin;
    node.begin = static_cast<uint32_t>(edges_.size());
    if (i > 0 && node.visits < min_visits) {
      node.count = 0;
    }
    for (uint32_t e = begin; e < begin + node.count; ++e) {
      EdgeInfo edge = old_edges[e];
      if (edge.child != kNone) {
        if (moved[edge.child] == kNone) {
          moved[edge.child] = static_cast<uint32_t>(order.size());
          order.push_back(edge.child);
        }
        edge.child = moved[edge.child];
      }
      edges_.push_back(edge);
    }
    places_.emplace(node.key, static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back(node);
  }
  root_node_ = 0;
}

// Twice as many visits each time, until half of the memory is free or nothing but the root is left.
template <GameState S, class Select>
void GraphSearch<S, Select>::prune(SearchCounters& counters) {
  ++counters.prunings;
  const size_t limit = static_cast<size_t>(config_.memory_limit);
  for (uint64_t least = 2; bytes() > limit / 2 && least <= nodes_[root_node_].visits; least *= 2) {
    rebuild(root_node_, least);
  }
  check(bytes() <= limit, "search: memory_limit {} is too small for this game", limit);
}

}  // namespace mstrain::mcts
