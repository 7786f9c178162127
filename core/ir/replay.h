// Applies a recorded program node by node, in the current trace.
#pragma once

#include "core/ir/tensor.h"

namespace mstrain {

class Replay {
 public:
  // `inputs`: one per input of `graph`, which is kept by reference.
  Replay(const Graph& graph, std::span<const Tensor> inputs);

  // The live node whose turn it is; null after the last one.
  const Node* next() const { return next_ < graph_.size() ? &graph_.node(next_) : nullptr; }
  void apply_next();
  // After the last node.
  Tensors outputs() const;

 private:
  void go_to_next();

  const Graph& graph_;
  std::vector<bool> live_;
  std::vector<Tensors> results_;  // by node
  Tensors arguments_;
  NodeId next_ = 0;
};

}  // namespace mstrain
