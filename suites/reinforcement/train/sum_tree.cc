#include "suites/reinforcement/train/sum_tree.h"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {

namespace {

constexpr int64_t kChildren = 16;

// Where the levels begin; the last number is where they end.
std::vector<int64_t> levels_of(int64_t leaves) {
  std::vector<int64_t> begins{0};
  for (int64_t nodes = leaves; begins.size() == 1 || nodes > 1;) {
    nodes = (nodes + kChildren - 1) / kChildren;
    begins.push_back(begins.back() + nodes * kChildren);
  }
  return begins;
}

// Of every `kStep`th child: each half of them by itself, none through memory.
template <int64_t kStep = 1>
double sum_of(const double* children) {
  if constexpr (kStep == kChildren) {
    return children[0];
  } else {
    return sum_of<2 * kStep>(children) + sum_of<2 * kStep>(children + kStep);
  }
}

// The child at `place`, which then counts from where it begins: as many as leave something of it. No branch depends on where, so that
// many draws go down at once. Where rounding points behind all children, the last one that has a weight is meant, and so on below.
int64_t child_at(const double* children, double& place) {
  std::array<double, kChildren + 1> rest;
  rest[0] = place;
  double left = place;
  int64_t child = kChildren;
#pragma GCC unroll 16
  for (size_t i = 0; i < kChildren; ++i) {
    left -= children[i];
    rest[i + 1] = left;
    child += std::bit_cast<int64_t>(left) >> 63;  // its sign: -1 or 0
  }
  if (child < kChildren) {
    place = rest[static_cast<size_t>(child)];
    return child;
  }
  while (child > 1 && children[child - 1] <= 0) {
    --child;
  }
  place = children[child - 1];
  return child - 1;
}

}  // namespace

SumTree::SumTree(int64_t leaves) : levels_(levels_of(leaves)), nodes_(count(levels_.back())) {
  levels_.pop_back();
}

void SumTree::set(std::span<const int64_t> leaves, std::span<const double> weights) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    nodes_[count(leaves[i])] = weights[i];
  }
  std::vector<int64_t> changed(leaves.begin(), leaves.end());
  for (size_t level = 1; level < levels_.size(); ++level) {
    size_t parents = 0;
    for (const int64_t child : changed) {
      const int64_t node = child / kChildren;
      if (parents == 0 || changed[parents - 1] != node) {
        nodes_[count(levels_[level] + node)] =
            sum_of(&nodes_[count(levels_[level - 1] + node * kChildren)]);
        changed[parents++] = node;
      }
    }
    changed.resize(parents);
  }
  total_ = sum_of(&nodes_[count(levels_.back())]);
}

std::vector<int64_t> SumTree::find(std::vector<double> places) const {
  std::vector<int64_t> nodes(places.size());
  for (size_t level = levels_.size(); level-- > 0;) {
    for (size_t i = 0; i < places.size(); ++i) {
      const double* const children = &nodes_[count(levels_[level] + nodes[i] * kChildren)];
      nodes[i] = nodes[i] * kChildren + child_at(children, places[i]);
      if (level > 0) {  // what the next level reads of it
        const double* const next = &nodes_[count(levels_[level - 1] + nodes[i] * kChildren)];
        __builtin_prefetch(next);
        __builtin_prefetch(next + kChildren / 2);
      }
    }
  }
  return nodes;
}

std::vector<double> SumTree::weights(int64_t number) const {
  return {nodes_.begin(), nodes_.begin() + number};
}

void SumTree::set_weights(std::span<const double> weights) {
  std::vector<int64_t> leaves(weights.size());
  std::iota(leaves.begin(), leaves.end(), 0);
  set(leaves, weights);
}

int64_t SumTree::bytes(int64_t leaves) {
  return levels_of(leaves).back() * static_cast<int64_t>(sizeof(double));
}

double priority_of(double error, double exponent) {
  return std::pow(std::abs(error) + 1e-6, exponent);
}

float weight_of(const SumTree& tree, int64_t leaf, int64_t size, double importance) {
  const double share = tree.weight(leaf) / tree.total();
  return static_cast<float>(std::pow(share * static_cast<double>(size), -importance));
}

}  // namespace mstrain::reinforcement
