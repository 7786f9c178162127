// How a tree of MuZeroSearch goes down: by PUCT, by Gumbel's improved policy, by halving at its root, by chance.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mcts/search/gumbel.h"
#include "mcts/search/muzero_tree.h"

namespace mstrain::mcts {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

GumbelScale scale_of(const MuZeroConfig& config) {
  return {static_cast<float>(config.gumbel_visit), static_cast<float>(config.gumbel_scale),
          static_cast<float>(config.gumbel_spread)};
}

}  // namespace

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
  float best_score = kLeast;
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

uint32_t MuZeroTree::select_outcome(const Node& n) const {
  uint32_t best = n.open;
  float best_score = n.next_prior;
  for (uint32_t i = 0; i < n.open; ++i) {
    const float score = column(n, 2)[i] / (1 + column(n, 0)[i]);
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
  float best_score = n.next_prior > 0 ? weight(n.next_prior, mixed) / total : kLeast;
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

}  // namespace mstrain::mcts
