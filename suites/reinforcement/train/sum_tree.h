// Draws in proportion to priorities (Schaul et al. 2016).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mstrain::reinforcement {

// Leaves with weights, and draws in proportion to them. A node is the sum of its sixteen children in one order, whatever came before:
// wide nodes are few, and their children lie together.
class SumTree {
 public:
  explicit SumTree(int64_t leaves);
  // One after the other; many together wait for memory at once, and sum up once what neighbours share.
  void set(std::span<const int64_t> leaves, std::span<const double> weights);
  void set(int64_t leaf, double weight) { set({&leaf, 1}, {&weight, 1}); }
  double weight(int64_t leaf) const { return nodes_[static_cast<size_t>(leaf)]; }
  double total() const { return total_; }
  // The leaves at `places` in [0, total()), counting weights from the left. Some leaf must have one.
  std::vector<int64_t> find(std::vector<double> places) const;

  // The first `count` weights, and back.
  std::vector<double> weights(int64_t count) const;
  void set_weights(std::span<const double> weights);
  static int64_t bytes(int64_t leaves);

 private:
  std::vector<int64_t> levels_;  // where each begins among the nodes, from the leaves on
  std::vector<double> nodes_;
  double total_ = 0;
};

// (|error| + 1e-6)^exponent
double priority_of(double error, double exponent);
// (N p)^-importance of a leaf among N that can be drawn.
float weight_of(const SumTree& tree, int64_t leaf, int64_t size, double importance);

}  // namespace mstrain::reinforcement
