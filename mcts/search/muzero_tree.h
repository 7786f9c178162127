// One tree of MuZeroSearch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "mcts/random.h"
#include "mcts/search/muzero.h"
#include "mcts/search/pack.h"

namespace mstrain::mcts {

// Nodes are numbered in the order of their creation. A node's visited children stand together in the edge pool, five columns of
// `capacity` words: visits, value, prior, child, action.
struct MuZeroTree {
  struct Node {
    double value_sum = 0;  // a float would drift from some thousand visits on
    uint32_t visits = 0;
    float reward = 0;
    float raw_value = 0;
    float total = 0;  // sum of exp(logit - top) over all actions; 0: not yet taken
    float top = 0;
    float opened_prior = 0;
    float next_prior = 0;  // of the most probable unvisited action
    uint32_t next_action = 0;
    uint32_t edges = 0;
    uint16_t open = 0;
    uint16_t capacity = 0;
    bool is_chance = false;  // an afterstate
    float mean() const { return static_cast<float>(value_sum / visits); }
  };
  struct Step {
    uint32_t node;
    uint32_t edge;
  };

  // What a network says of a new node: logits of config.width(), vectors [actions, action_size].
  struct Answer {
    float reward;
    float value;
    const float* logits;
    const float* sampled;
  };

  MuZeroTree(const MuZeroConfig& c, uint64_t number)
      : config(c),
        actions(static_cast<uint32_t>(c.actions)),
        padded((static_cast<size_t>(c.width()) + kLanes - 1) / kLanes * kLanes),
        random(c.seed, number),
        nodes(static_cast<size_t>(c.simulations) + 1),
        logits(nodes.size() * padded, -std::numeric_limits<float>::infinity()),
        sampled(nodes.size() * static_cast<size_t>(c.actions * c.action_size)) {}

  const MuZeroConfig& config;
  uint32_t actions;
  size_t padded;
  Random random;
  std::vector<Node> nodes;
  std::vector<float> logits;   // [node, padded]; minus infinity where illegal or already visited
  std::vector<float> sampled;  // [node, actions, action_size]
  std::vector<float> pool;     // edges
  std::vector<Step> path;
  uint32_t count = 0;  // nodes in use
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
  uint64_t bytes = 0;
  std::vector<float> root_logits;  // with noise; kept whole for the improved policy
  std::vector<float> gumbel;
  std::vector<uint32_t> root_visits;  // by action
  std::vector<float> root_values;
  std::vector<uint32_t> considered;  // gumbel: the actions that halving begins with
  std::vector<uint32_t> schedule;

  float* column(const Node& n, uint32_t i) {
    return pool.data() + n.edges + size_t{i} * n.capacity;
  }
  const float* column(const Node& n, uint32_t i) const {
    return pool.data() + n.edges + size_t{i} * n.capacity;
  }

  void add_node(const Answer& answer, bool is_chance);
  void begin(const Answer& answer, uint64_t game);
  void add_noise(Random& rng, float* row) const;
  // Softmax of a node that is left for the first time, and its most probable action.
  void prepare(uint32_t index);
  // PUCT over the visited edges and the most probable unvisited one; open where that wins.
  uint32_t select(const Node& n) const;
  // The outcome whose share of the visits is furthest behind its probability: no draw, and no noise by one.
  uint32_t select_outcome(const Node& n) const;
  float mean_edge_value(const Node& n) const;
  float node_mixed(const Node& n) const;
  // argmax of the improved policy less the share of visits.
  uint32_t select_improved(const Node& n) const;
  // Logit plus transformed value of every root action.
  std::vector<float> improved_logits() const;
  uint32_t halving_action() const;
  // Adds an edge of node `index` for `action`; its child will be the next node.
  uint32_t open_edge(uint32_t index, uint32_t action, float prior);
  // From the root to an action that has no node yet. Returns that edge's node and action.
  std::pair<uint32_t, uint32_t> descend();
  uint32_t find(const Node& n, uint32_t action) const;
  // Whether the node that descend() went to is one.
  bool reaches_afterstate() const {
    return config.chance_codes > 0 && !nodes[path.back().node].is_chance;
  }
  // The node that descend() went to.
  void expand(const Answer& answer);
  void back_up(float value);
};

}  // namespace mstrain::mcts
