#include "mcts/search/muzero_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "mcts/search/gumbel.h"

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

GumbelScale scale_of(const MuZeroConfig& config) {
  return {static_cast<float>(config.gumbel_visit), static_cast<float>(config.gumbel_scale),
          static_cast<float>(config.gumbel_spread)};
}

}  // namespace

void MuZeroTree::add_node(float reward, float value, const float* row, const float* vectors) {
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

void MuZeroTree::begin(const float* row, float value, const float* vectors, uint64_t game) {
  count = 0;
  pool.clear();
  low = std::numeric_limits<float>::infinity();
  high = -low;
  add_node(0, value, row, vectors);
  nodes[0].visits = 1;
  nodes[0].value_sum = static_cast<double>(value);
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
    for (size_t i = 0; i < order.size() && i < static_cast<size_t>(config.gumbel_considered); ++i) {
      considered.push_back(order[i].second);
    }
    schedule = halving_schedule(static_cast<uint32_t>(considered.size()),
                                static_cast<uint32_t>(config.simulations));
  } else if (config.noise_fraction > 0) {
    add_noise(rng, own);
  }
  root_logits.assign(own, own + actions);
}

void MuZeroTree::add_noise(Random& rng, float* row) const {
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

void MuZeroTree::prepare(uint32_t index) {
  Node& n = nodes[index];
  const float* row = logits.data() + index * padded;
  const Top top = largest(row, padded);
  n.top = top.value;
  n.total = exp_sum(row, padded, top.value);
  n.next_action = top.index;
  n.next_prior = 1 / n.total;
  bytes += 2 * padded * sizeof(float);
}

uint32_t MuZeroTree::select(const Node& n) const {
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

float MuZeroTree::mean_edge_value(const Node& n) const {
  float sum = 0;
  float visits = 0;
  for (uint32_t i = 0; i < n.open; ++i) {
    sum += column(n, 0)[i] * column(n, 1)[i];
    visits += column(n, 0)[i];
  }
  return visits > 0 ? sum / visits : 0;
}

float MuZeroTree::node_mixed(const Node& n) const {
  float visits = 0;
  float prior_value = 0;
  for (uint32_t i = 0; i < n.open; ++i) {
    visits += column(n, 0)[i];
    prior_value += column(n, 2)[i] * column(n, 1)[i];
  }
  return mixed_value(n.raw_value, visits, prior_value, n.opened_prior);
}

uint32_t MuZeroTree::select_improved(const Node& n) const {
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
  const GumbelScale scale = scale_of(config);
  const float factor = (scale.visit + most_visits) * scale.scale / value_range(most - least, scale);
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

std::vector<float> MuZeroTree::improved_logits() const {
  std::vector<float> result(actions);
  transform_values(root_visits, root_values, node_mixed(nodes[0]), scale_of(config), result);
  for (uint32_t a = 0; a < actions; ++a) {
    result[a] += root_logits[a];
  }
  return result;
}

uint32_t MuZeroTree::halving_action() const {
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

uint32_t MuZeroTree::open_edge(uint32_t index, uint32_t action, float prior) {
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

std::pair<uint32_t, uint32_t> MuZeroTree::descend() {
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

uint32_t MuZeroTree::find(const Node& n, uint32_t action) const {
  uint32_t i = 0;
  while (i < n.open && std::bit_cast<uint32_t>(column(n, 4)[i]) != action) {
    ++i;
  }
  return i;
}

void MuZeroTree::back_up(float value) {
  const auto discount =
      static_cast<float>(config.players == 2 ? -config.discount : config.discount);
  uint32_t child = count - 1;
  nodes[child].visits = 1;
  nodes[child].value_sum = static_cast<double>(value);
  for (size_t i = path.size(); i > 0; --i) {
    const Step step = path[i - 1];
    Node& parent = nodes[step.node];
    const Node& below = nodes[child];
    value = below.reward + discount * value;
    const float q = below.reward + discount * below.mean();
    low = std::min(low, q);
    high = std::max(high, q);
    column(parent, 0)[step.edge] = static_cast<float>(below.visits);
    column(parent, 1)[step.edge] = q;
    ++parent.visits;
    parent.value_sum += static_cast<double>(value);
    child = step.node;
  }
  const Node& root = nodes[0];
  const auto action = std::bit_cast<uint32_t>(column(root, 4)[path[0].edge]);
  ++root_visits[action];
  root_values[action] = column(root, 1)[path[0].edge];
  bytes += path.size() * (sizeof(Node) + 2 * sizeof(float));
}

}  // namespace mstrain::mcts
