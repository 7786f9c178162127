#include "mcts/search/muzero.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "mcts/search/gumbel.h"
#include "mcts/search/pack.h"

namespace mstrain::mcts {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Index and value of the first largest element. `row` is padded to whole packs with minus infinity.
struct Top {
  uint32_t index;
  float value;
};
Top largest(const float* row, size_t padded) {
  FloatPack best = FloatPack{} + kNever;
  FloatPack place{};
  IntPack index = kLaneNumbers;
  for (size_t i = 0; i < padded; i += kLanes, index += kLanes) {
    FloatPack x;
    load(row + i, x);
    const IntPack better = x > best;
    place = better ? __builtin_convertvector(index, FloatPack) : place;
    best = larger(x, best);
  }
  const FloatPack top = FloatPack{} + largest_lane(best)[0];
  const FloatPack none = FloatPack{} + static_cast<float>(1 << 24);
  return {static_cast<uint32_t>(smallest_lane(best == top ? place : none)[0]), top[0]};
}

float exp_sum(const float* row, size_t padded, float top) {
  FloatPack total{};
  for (size_t i = 0; i < padded; i += kLanes) {
    FloatPack x;
    load(row + i, x);
    const IntPack legal = x > kNever;
    total += std::bit_cast<FloatPack>(std::bit_cast<IntPack>(fast_exp(x - top)) & legal);
  }
  return lane_sum(total);
}

}  // namespace

// Nodes are numbered in the order of their creation. A node's visited children stand together in the edge pool, five columns of
// `capacity` words: visits, value, prior, child, action.
struct MuZeroSearch::Tree {
  struct Node {
    uint32_t visits = 0;
    float value_sum = 0;
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
  };
  struct Step {
    uint32_t node;
    uint32_t edge;
  };

  Tree(const MuZeroConfig& c, uint64_t number)
      : config(c),
        actions(static_cast<uint32_t>(c.actions)),
        padded((static_cast<size_t>(c.actions) + kLanes - 1) / kLanes * kLanes),
        random(c.seed, number),
        nodes(static_cast<size_t>(c.simulations) + 1),
        logits(nodes.size() * padded, kNever),
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

  float* column(const Node& n, uint32_t i) {
    return pool.data() + n.edges + size_t{i} * n.capacity;
  }
  const float* column(const Node& n, uint32_t i) const {
    return pool.data() + n.edges + size_t{i} * n.capacity;
  }

  void add_node(float reward, float value, const float* row, const float* vectors) {
    Node& n = nodes[count];
    n = Node{.reward = reward, .raw_value = value};
    std::memcpy(logits.data() + count * padded, row, actions * sizeof(float));
    if (!sampled.empty()) {
      const size_t size = static_cast<size_t>(config.actions * config.action_size);
      std::memcpy(sampled.data() + count * size, vectors, size * sizeof(float));
      bytes += size * sizeof(float);
    }
    bytes += actions * sizeof(float) + sizeof(Node);
    ++count;
  }

  void begin(const float* row, float value, const float* vectors, uint64_t game) {
    count = 0;
    pool.clear();
    low = std::numeric_limits<float>::infinity();
    high = -low;
    add_node(0, value, row, vectors);
    nodes[0].visits = 1;
    nodes[0].value_sum = value;
    root_visits.assign(actions, 0);
    root_values.assign(actions, 0);
    Random rng = random.split(game);
    float* own = logits.data();
    if (config.gumbel) {
      gumbel.resize(actions);
      std::vector<std::pair<float, uint32_t>> order;
      for (uint32_t a = 0; a < actions; ++a) {
        gumbel[a] = static_cast<float>(rng.gumbel());
        if (own[a] > kNever) {
          order.emplace_back(-(gumbel[a] + own[a]), a);
        }
      }
      std::sort(order.begin(), order.end());
      considered.clear();
      for (size_t i = 0; i < order.size() && i < static_cast<size_t>(config.gumbel_considered);
           ++i) {
        considered.push_back(order[i].second);
      }
      schedule = halving_schedule(static_cast<uint32_t>(considered.size()),
                                  static_cast<uint32_t>(config.simulations));
    } else if (config.noise_fraction > 0) {
      add_noise(rng, own);
    }
    root_logits.assign(own, own + actions);
  }
  std::vector<uint32_t> considered;
  std::vector<uint32_t> schedule;

  void add_noise(Random& rng, float* row) const {
    const Top top = largest(row, padded);
    const float total = exp_sum(row, padded, top.value);
    std::vector<double> noise(actions, 0);
    double sum = 0;
    for (uint32_t a = 0; a < actions; ++a) {
      if (row[a] > kNever) {
        noise[a] = rng.gamma(config.noise_alpha);
        sum += noise[a];
      }
    }
    for (uint32_t a = 0; a < actions && sum > 0; ++a) {
      if (row[a] > kNever) {
        const double prior =
            std::exp(static_cast<double>(row[a] - top.value)) / static_cast<double>(total);
        row[a] = static_cast<float>(std::log(std::max(
            1e-30, (1 - config.noise_fraction) * prior + config.noise_fraction * noise[a] / sum)));
      }
    }
  }

  // Softmax of a node that is left for the first time, and its most probable action.
  void prepare(uint32_t index) {
    Node& n = nodes[index];
    const float* row = logits.data() + index * padded;
    const Top top = largest(row, padded);
    n.top = top.value;
    n.total = exp_sum(row, padded, top.value);
    n.next_action = top.index;
    n.next_prior = 1 / n.total;
    bytes += 2 * padded * sizeof(float);
  }

  float scaled(float q) const { return high > low ? (q - low) / (high - low) : q; }

  // PUCT over the visited edges and the most probable unvisited one; open where that wins.
  uint32_t select(const Node& n) const {
    const float visits = static_cast<float>(n.visits - 1);  // of the edges
    const auto c1 = static_cast<float>(config.c1);
    const auto c2 = static_cast<float>(config.c2);
    const float exploration = square_root(visits) * (c1 + fast_log((visits + c2 + 1) / c2));
    const float shift = high > low ? low : 0;
    const float factor = high > low ? 1 / (high - low) : 1;
    const float* at_visits = column(n, 0);
    const float* at_value = column(n, 1);
    const float* at_prior = column(n, 2);
    uint32_t best = n.open;
    // Unvisited actions count as the node's mean value.
    float best_score = kNever;
    if (n.next_prior > 0) {
      best_score = n.open == 0 ? std::numeric_limits<float>::infinity()
                               : (mean_edge_value(n) - shift) * factor + exploration * n.next_prior;
    }
    for (uint32_t i = 0; i < n.open; ++i) {
      const float score =
          (at_value[i] - shift) * factor + exploration * at_prior[i] / (1 + at_visits[i]);
      if (score > best_score) {
        best_score = score;
        best = i;
      }
    }
    return best;
  }

  float mean_edge_value(const Node& n) const {
    float sum = 0;
    float visits = 0;
    for (uint32_t i = 0; i < n.open; ++i) {
      sum += column(n, 0)[i] * column(n, 1)[i];
      visits += column(n, 0)[i];
    }
    return visits > 0 ? sum / visits : 0;
  }

  float node_mixed(const Node& n) const {
    float visits = 0;
    float prior_value = 0;
    for (uint32_t i = 0; i < n.open; ++i) {
      visits += column(n, 0)[i];
      prior_value += column(n, 2)[i] * column(n, 1)[i];
    }
    return mixed_value(n.raw_value, visits, prior_value, n.opened_prior);
  }

  // argmax of the improved policy less the share of visits.
  uint32_t select_improved(const Node& n) const {
    const float mixed = node_mixed(n);
    float least = mixed;
    float most = mixed;
    float most_visits = 0;
    float visits = 0;
    for (uint32_t i = 0; i < n.open; ++i) {
      least = std::min(least, column(n, 1)[i]);
      most = std::max(most, column(n, 1)[i]);
      most_visits = std::max(most_visits, column(n, 0)[i]);
      visits += column(n, 0)[i];
    }
    const float factor = (static_cast<float>(config.gumbel_visit) + most_visits) *
                         static_cast<float>(config.gumbel_scale) / std::max(most - least, 1e-8F);
    const auto weight = [&](float prior, float q) { return prior * std::exp((q - most) * factor); };
    float total = weight(std::max(0.0F, 1 - n.opened_prior), mixed);
    for (uint32_t i = 0; i < n.open; ++i) {
      total += weight(column(n, 2)[i], column(n, 1)[i]);
    }
    total = std::max(total, std::numeric_limits<float>::min());
    uint32_t best = n.open;
    float best_score = n.next_prior > 0 ? weight(n.next_prior, mixed) / total : kNever;
    for (uint32_t i = 0; i < n.open; ++i) {
      const float score =
          weight(column(n, 2)[i], column(n, 1)[i]) / total - column(n, 0)[i] / (1 + visits);
      if (score > best_score) {
        best_score = score;
        best = i;
      }
    }
    return best;
  }

  // Logit plus transformed value of every root action.
  std::vector<float> improved_logits() const {
    std::vector<float> result(actions);
    const GumbelScale scale{static_cast<float>(config.gumbel_visit),
                            static_cast<float>(config.gumbel_scale)};
    transform_values(root_visits, root_values, node_mixed(nodes[0]), scale, result);
    for (uint32_t a = 0; a < actions; ++a) {
      result[a] += root_logits[a];
    }
    return result;
  }

  uint32_t halving_action() const {
    const auto done = static_cast<size_t>(count - 1);
    const uint32_t due = schedule[std::min(done, schedule.size() - 1)];
    const std::vector<float> improved = improved_logits();
    uint32_t best = considered[0];
    bool found = false;
    for (const uint32_t a : considered) {
      const bool matches = root_visits[a] == due;
      if ((matches && !found) ||
          (matches == found && gumbel[a] + improved[a] > gumbel[best] + improved[best])) {
        best = a;
        found = matches;
      }
    }
    return best;
  }

  // Adds an edge of node `index` for `action`; its child will be the next node.
  uint32_t open_edge(uint32_t index, uint32_t action, float prior) {
    Node& n = nodes[index];
    if (n.open == n.capacity) {
      const auto capacity =
          static_cast<uint16_t>(n.capacity == 0 ? 4 : std::min<uint32_t>(2U * n.capacity, 65535));
      const auto place = static_cast<uint32_t>(pool.size());
      pool.resize(pool.size() + size_t{5} * capacity, 0);
      for (uint32_t c = 0; c < 5; ++c) {
        std::copy_n(pool.data() + n.edges + size_t{c} * n.capacity, n.open,
                    pool.data() + place + size_t{c} * capacity);
      }
      bytes += size_t{10} * n.open * sizeof(float);
      n.edges = place;
      n.capacity = capacity;
    }
    const uint32_t edge = n.open++;
    column(n, 0)[edge] = 0;
    column(n, 1)[edge] = 0;
    column(n, 2)[edge] = prior;
    column(n, 3)[edge] = std::bit_cast<float>(count);
    column(n, 4)[edge] = std::bit_cast<float>(action);
    n.opened_prior += prior;
    float* row = logits.data() + index * padded;
    row[action] = kNever;
    const Top next = largest(row, padded);
    n.next_action = next.index;
    n.next_prior =
        next.value > kNever
            ? static_cast<float>(std::exp(static_cast<double>(next.value - n.top))) / n.total
            : 0.0F;
    bytes += padded * sizeof(float) + 5 * sizeof(float);
    return edge;
  }

  // From the root to an action that has no node yet. Returns that edge's node and action.
  std::pair<uint32_t, uint32_t> descend() {
    path.clear();
    uint32_t index = 0;
    for (;;) {
      Node& n = nodes[index];
      if (n.total == 0) {
        prepare(index);
      }
      uint32_t edge = 0;
      if (config.gumbel && index == 0) {
        const uint32_t action = halving_action();
        edge = find(n, action);
        if (edge == n.open) {
          const float prior =
              static_cast<float>(std::exp(static_cast<double>(root_logits[action] - n.top))) /
              n.total;
          open_edge(0, action, prior);
        }
      } else {
        edge = config.gumbel ? select_improved(n) : select(n);
        if (edge == n.open) {
          open_edge(index, n.next_action, n.next_prior);
        }
      }
      bytes += size_t{n.open} * 3 * sizeof(float);
      path.push_back({index, edge});
      const auto child = std::bit_cast<uint32_t>(column(nodes[index], 3)[edge]);
      if (child == count) {
        return {index, std::bit_cast<uint32_t>(column(nodes[index], 4)[edge])};
      }
      index = child;
    }
  }

  uint32_t find(const Node& n, uint32_t action) const {
    uint32_t i = 0;
    while (i < n.open && std::bit_cast<uint32_t>(column(n, 4)[i]) != action) {
      ++i;
    }
    return i;
  }

  void back_up(float value) {
    const auto discount =
        static_cast<float>(config.players == 2 ? -config.discount : config.discount);
    uint32_t child = count - 1;
    nodes[child].visits = 1;
    nodes[child].value_sum = value;
    for (size_t i = path.size(); i > 0; --i) {
      const Step step = path[i - 1];
      Node& parent = nodes[step.node];
      const Node& below = nodes[child];
      value = below.reward + discount * value;
      const float q = below.reward + discount * below.value_sum / static_cast<float>(below.visits);
      low = std::min(low, q);
      high = std::max(high, q);
      column(parent, 0)[step.edge] = static_cast<float>(below.visits);
      column(parent, 1)[step.edge] = q;
      ++parent.visits;
      parent.value_sum += value;
      child = step.node;
    }
    const Node& root = nodes[0];
    const auto action = std::bit_cast<uint32_t>(column(root, 4)[path[0].edge]);
    ++root_visits[action];
    root_values[action] = column(root, 1)[path[0].edge];
    bytes += path.size() * (sizeof(Node) + 2 * sizeof(float));
  }
};

MuZeroSearch::MuZeroSearch(const MuZeroConfig& config) : config_(config) {
  check(config.roots >= 1 && config.actions >= 1 && config.simulations >= 1 &&
            config.threads >= 1 && config.action_size >= 0,
        "muzero search: {} roots, {} actions of size {}, {} simulations, {} threads", config.roots,
        config.actions, config.action_size, config.simulations, config.threads);
  check(config.actions <= 65535, "muzero search: {} actions; 65535 are possible", config.actions);
  check(config.players == 1 || config.players == 2,
        "muzero search: {} players; 1 or 2 are possible", config.players);
  for (int64_t i = 0; i < config.roots; ++i) {
    trees_.push_back(std::make_unique<Tree>(config_, static_cast<uint64_t>(i)));
  }
  if (config.threads > 1) {
    pool_ = std::make_unique<ThreadPool>(static_cast<int>(config.threads - 1));
  }
}

MuZeroSearch::~MuZeroSearch() = default;

template <class Body>
void MuZeroSearch::for_each_root(const Body& body) {
  const auto chunk = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(i);
    }
  };
  if (pool_ != nullptr) {
    pool_->parallel_for(config_.roots, std::max<int64_t>(1, config_.roots / (4 * config_.threads)),
                        chunk);
  } else {
    chunk(0, config_.roots);
  }
}

namespace {

void check_size(const char* what, size_t size, int64_t expected) {
  check(size == static_cast<size_t>(expected), "muzero search: {} has {} numbers; {} expected",
        what, size, expected);
}

// A policy row may hold minus infinity, but not only that, and nothing that is not a number.
void check_row(const float* row, int64_t actions, int64_t root) {
  const float top = *std::max_element(row, row + actions);
  bool bad = !(top > kNever && top < std::numeric_limits<float>::infinity());
  for (int64_t a = 0; a < actions; ++a) {
    bad = bad || std::isnan(row[a]);
  }
  check(!bad,
        "muzero search: the logits of root {} hold no finite one, or something that is no number",
        root);
}

}  // namespace

void MuZeroSearch::set_roots(std::span<const float> logits, std::span<const float> values,
                             std::span<const float> sampled) {
  check_size("logits", logits.size(), config_.roots * config_.actions);
  check_size("values", values.size(), config_.roots);
  check_size("sampled", sampled.size(), config_.roots * config_.actions * config_.action_size);
  ++games_;
  started_ = gathered_ = false;
  done_ = 0;
  for_each_root([&](int64_t i) {
    check_row(logits.data() + i * config_.actions, config_.actions, i);
    check(std::isfinite(values[i]), "muzero search: the value of root {} is {}", i, values[i]);
    trees_[i]->begin(logits.data() + i * config_.actions, values[i],
                     sampled.data() + i * config_.actions * config_.action_size, games_);
  });
  started_ = true;
}

void MuZeroSearch::gather(std::span<uint32_t> nodes, std::span<uint32_t> actions,
                          std::span<float> vectors) {
  check(started_ && !gathered_, "muzero search: gather() before set_roots() or before scatter()");
  check(done_ < config_.simulations, "muzero search: all {} simulations are done",
        config_.simulations);
  check_size("nodes", nodes.size(), config_.roots);
  check_size("actions", actions.size(), config_.roots);
  check_size("vectors", vectors.size(), config_.roots * config_.action_size);
  for_each_root([&](int64_t i) {
    Tree& tree = *trees_[i];
    std::tie(nodes[i], actions[i]) = tree.descend();
    if (config_.action_size > 0) {
      std::copy_n(
          tree.sampled.data() + (nodes[i] * config_.actions + actions[i]) * config_.action_size,
          config_.action_size, vectors.data() + i * config_.action_size);
    }
  });
  gathered_ = true;
}

void MuZeroSearch::scatter(std::span<const float> rewards, std::span<const float> values,
                           std::span<const float> logits, std::span<const float> sampled) {
  check(gathered_, "muzero search: scatter() before gather()");
  check_size("rewards", rewards.size(), config_.roots);
  check_size("values", values.size(), config_.roots);
  check_size("logits", logits.size(), config_.roots * config_.actions);
  check_size("sampled", sampled.size(), config_.roots * config_.actions * config_.action_size);
  for (int64_t i = 0; i < config_.roots; ++i) {
    check(std::isfinite(rewards[i]) && std::isfinite(values[i]),
          "muzero search: root {}: reward {}, value {}", i, rewards[i], values[i]);
  }
  for_each_root([&](int64_t i) {
    trees_[i]->add_node(rewards[i], values[i], logits.data() + i * config_.actions,
                        sampled.data() + i * config_.actions * config_.action_size);
    trees_[i]->back_up(values[i]);
  });
  gathered_ = false;
  ++done_;
}

std::vector<uint32_t> MuZeroSearch::visits(int64_t root) const {
  return trees_.at(root)->root_visits;
}
std::vector<float> MuZeroSearch::action_values(int64_t root) const {
  return trees_.at(root)->root_values;
}

std::vector<float> MuZeroSearch::policy(int64_t root) const {
  const Tree& tree = *trees_.at(root);
  if (config_.gumbel) {
    std::vector<float> logits = tree.improved_logits();
    softmax(logits, logits);
    return logits;
  }
  std::vector<float> result(tree.root_visits.begin(), tree.root_visits.end());
  const float total = static_cast<float>(done_);
  for (float& p : result) {
    p = total > 0 ? p / total : 0;
  }
  return result;
}

float MuZeroSearch::value(int64_t root) const {
  const Tree::Node& n = trees_.at(root)->nodes[0];
  return n.value_sum / static_cast<float>(n.visits);
}

uint32_t MuZeroSearch::best_action(int64_t root) const {
  const Tree& tree = *trees_.at(root);
  const auto most = std::max_element(tree.root_visits.begin(), tree.root_visits.end());
  if (!config_.gumbel) {
    return static_cast<uint32_t>(most - tree.root_visits.begin());
  }
  const std::vector<float> improved = tree.improved_logits();
  uint32_t best = tree.considered[0];
  for (const uint32_t a : tree.considered) {
    if (tree.root_visits[a] > tree.root_visits[best] ||
        (tree.root_visits[a] == tree.root_visits[best] &&
         tree.gumbel[a] + improved[a] > tree.gumbel[best] + improved[best])) {
      best = a;
    }
  }
  return best;
}

uint64_t MuZeroSearch::bytes_moved() const {
  uint64_t sum = 0;
  for (const auto& tree : trees_) {
    sum += tree->bytes;
  }
  return sum;
}

void run_muzero(MuZeroSearch& search, const MuZeroConfig& config, RecurrentEvaluator& network,
                std::span<const float> root_hidden) {
  const int64_t roots = config.roots;
  const int64_t hidden = network.hidden_size();
  check_size("root_hidden", root_hidden.size(), roots * hidden);
  const int64_t vector_size = roots * config.action_size;
  std::vector<float> states(
      static_cast<size_t>((config.simulations + 1) * roots * hidden));  // [node, root, hidden]
  std::copy(root_hidden.begin(), root_hidden.end(), states.begin());
  std::vector<uint32_t> nodes(roots);
  std::vector<uint32_t> actions(roots);
  std::vector<float> vectors(vector_size);
  std::vector<float> rows(roots * hidden);
  std::vector<float> rewards(roots);
  std::vector<float> values(roots);
  std::vector<float> logits(roots * config.actions);
  std::vector<float> sampled(vector_size * config.actions);
  for (int64_t s = search.done(); s < config.simulations; ++s) {
    search.gather(nodes, actions, vectors);
    for (int64_t i = 0; i < roots; ++i) {
      std::copy_n(states.data() + (nodes[i] * roots + i) * hidden, hidden,
                  rows.data() + i * hidden);
    }
    const std::span<float> next(states.data() + (s + 1) * roots * hidden,
                                static_cast<size_t>(roots * hidden));
    network.recurrent(roots, rows, actions, vectors, next, rewards, values, logits, sampled);
    search.scatter(rewards, values, logits, sampled);
  }
}

}  // namespace mstrain::mcts
