#include "suites/reinforcement/train/sum_tree.h"

#include <algorithm>
#include <array>
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

double sum_of(const double* children) {
  std::array<double, kChildren> sums;
  std::copy_n(children, kChildren, sums.begin());
  for (size_t half = kChildren / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      sums[i] += sums[half + i];
    }
  }
  return sums[0];
}

// The child at `place`, which then counts from where it begins. Where rounding points behind all of them, the last one that has a weight
// is meant, and so on below.
int64_t child_at(const double* children, double& place) {
  int64_t last = 0;
  for (int64_t child = 0; child < kChildren; ++child) {
    if (place < children[child]) {
      return child;
    }
    last = children[child] > 0 ? child : last;
    place -= children[child];
  }
  place = children[last];
  return last;
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
