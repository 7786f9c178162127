#include "suites/reinforcement/train/sum_tree.h"

#include <bit>
#include <cmath>

#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {

SumTree::SumTree(int64_t leaves)
    : first_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(leaves)))),
      nodes_(count(2 * first_)) {}

void SumTree::set(int64_t leaf, double weight) {
  int64_t node = first_ + leaf;
  nodes_[count(node)] = weight;
  for (node /= 2; node > 0; node /= 2) {
    nodes_[count(node)] = nodes_[count(2 * node)] + nodes_[count(2 * node + 1)];
  }
}

int64_t SumTree::find(double place) const {
  int64_t node = 1;
  while (node < first_) {
    const double left = nodes_[count(2 * node)];
    // Where rounding points at what has no weight, the other side is meant.
    const bool right = place >= left && nodes_[count(2 * node + 1)] > 0;
    place -= right ? left : 0;
    node = 2 * node + (right ? 1 : 0);
  }
  return node - first_;
}

std::vector<double> SumTree::weights(int64_t number) const {
  const auto begin = nodes_.begin() + first_;
  return {begin, begin + number};
}

void SumTree::set_weights(std::span<const double> weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    set(static_cast<int64_t>(i), weights[i]);
  }
}

int64_t SumTree::bytes(int64_t leaves) {
  return 16 * static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(leaves)));
}

double priority_of(double error, double exponent) {
  return std::pow(std::abs(error) + 1e-6, exponent);
}

float weight_of(const SumTree& tree, int64_t leaf, int64_t size, double importance) {
  const double share = tree.weight(leaf) / tree.total();
  return static_cast<float>(std::pow(share * static_cast<double>(size), -importance));
}

}  // namespace mstrain::reinforcement
