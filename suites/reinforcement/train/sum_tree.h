// Draws in proportion to priorities (Schaul et al. 2016).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mstrain::reinforcement {

// Leaves with weights, and draws in proportion to them. A node is the sum of its two children, whatever came before.
class SumTree {
 public:
  explicit SumTree(int64_t leaves);
  void set(int64_t leaf, double weight);
  double weight(int64_t leaf) const { return nodes_[static_cast<size_t>(first_ + leaf)]; }
  double total() const { return nodes_[1]; }
  // The leaf at `place` in [0, total()), counting weights from the left. Some leaf must have one.
  int64_t find(double place) const;

  // The first `count` weights, and back.
  std::vector<double> weights(int64_t count) const;
  void set_weights(std::span<const double> weights);
  static int64_t bytes(int64_t leaves);

 private:
  int64_t first_;  // node of leaf 0; node i has the children 2i and 2i + 1
  std::vector<double> nodes_;
};

// (|error| + 1e-6)^exponent
double priority_of(double error, double exponent);
// (N p)^-importance of a leaf among N that can be drawn.
float weight_of(const SumTree& tree, int64_t leaf, int64_t size, double importance);

}  // namespace mstrain::reinforcement
