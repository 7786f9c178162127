#include "suites/reinforcement/train/sum_tree.h"

#include <algorithm>
#include <array>
#include <cmath>

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

}  // namespace

SumTree::SumTree(int64_t leaves) : levels_(levels_of(leaves)), nodes_(count(levels_.back())) {
  levels_.pop_back();
}

void SumTree::set(int64_t leaf, double weight) {
  nodes_[count(leaf)] = weight;
  int64_t node = leaf / kChildren;
  for (size_t level = 1; level < levels_.size(); ++level) {
    nodes_[count(levels_[level] + node)] =
        sum_of(&nodes_[count(levels_[level - 1] + node * kChildren)]);
    node /= kChildren;
  }
  total_ = sum_of(&nodes_[count(levels_.back())]);
}

int64_t SumTree::find(double place) const {
  int64_t node = 0;
  for (size_t level = levels_.size(); level-- > 0;) {
    const double* const children = &nodes_[count(levels_[level] + node * kChildren)];
    // Where rounding points behind all of them, the last one that has a weight is meant, and so on below.
    int64_t last = 0;
    int64_t child = 0;
    for (; child < kChildren; ++child) {
      if (place < children[child]) {
        break;
      }
      last = children[child] > 0 ? child : last;
      place -= children[child];
    }
    if (child == kChildren) {
      child = last;
      place = children[last];
    }
    node = node * kChildren + child;
  }
  return node;
}

std::vector<double> SumTree::weights(int64_t number) const {
  return {nodes_.begin(), nodes_.begin() + number};
}

void SumTree::set_weights(std::span<const double> weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    set(static_cast<int64_t>(i), weights[i]);
  }
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
