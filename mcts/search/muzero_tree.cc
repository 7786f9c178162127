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

}  // namespace

void MuZeroTree::add_node(const Answer& answer, bool is_chance) {
  Node& n = nodes[count];
  n = Node{
      .reward = is_chance ? 0 : answer.reward, .raw_value = answer.value, .is_chance = is_chance};
  float* const own = logits.data() + count * padded;
  float* const codes = own + actions;
  if (is_chance) {
    std::fill(own, codes, kNever);
    std::copy_n(answer.logits + actions, config.chance_codes, codes);
  } else {
    std::copy_n(answer.logits, actions, own);
    std::fill_n(codes, config.chance_codes, kNever);
  }
  if (!sampled.empty()) {
    const size_t size = static_cast<size_t>(config.actions * config.action_size);
    std::memcpy(sampled.data() + count * size, answer.sampled, size * sizeof(float));
    bytes += size * sizeof(float);
  }
  bytes += static_cast<size_t>(config.width()) * sizeof(float) + sizeof(Node);
  ++count;
}

void MuZeroTree::begin(const Answer& answer, uint64_t game) {
  count = 0;
  pool.clear();
  low = std::numeric_limits<float>::infinity();
  high = -low;
  add_node(answer, /*is_chance=*/false);
  nodes[0].visits = 1;
  nodes[0].value_sum = static_cast<double>(answer.value);
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
      edge = n.is_chance ? select_outcome(n) : config.gumbel ? select_improved(n) : select(n);
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

void MuZeroTree::expand(const Answer& answer) {
  add_node(answer, reaches_afterstate());
  back_up(answer.value);
}

void MuZeroTree::back_up(float value) {
  const auto later = static_cast<float>(config.players == 2 ? -config.discount : config.discount);
  uint32_t child = count - 1;
  nodes[child].visits = 1;
  nodes[child].value_sum = static_cast<double>(value);
  for (size_t i = path.size(); i > 0; --i) {
    const Step step = path[i - 1];
    Node& parent = nodes[step.node];
    const Node& below = nodes[child];
    const float discount = below.is_chance ? 1 : later;  // the same player, at the same time
    value = below.reward + discount * value;
    const float q = below.reward + discount * below.mean();
    if (!parent.is_chance) {
      low = std::min(low, q);
      high = std::max(high, q);
    }
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
