// The nodes linear_cross_entropy and linear_cross_entropy_grad of a program, those that can be computed together in one.
#pragma once

#include <optional>

#include "core/ir/backend.h"
#include "core/ir/graph.h"
#include "core/tensor/jit.h"

namespace mstrain {

// One of the two operations, or both. Operands are those of the old graph.
struct LossHead {
  std::optional<NodeId> loss, gradient;
  Value x, weight, targets;
  std::optional<Value> bias, g, logsumexp;
  std::optional<Value> addend;     // exists before the head, and is added to dW
  std::optional<NodeId> addition;  // the node that adds it
  int64_t rows = 0, chunk = 0;

  NodeId place() const { return loss ? *loss : *gradient; }
};

class LossHeads {
 public:
  // `chunks` is CompileOptions::loss_chunks; `limits` say how many kAutoChunks are.
  LossHeads(const Graph& graph, int64_t chunks, const BackendLimits& limits);

  const std::vector<LossHead>& all() const { return heads_; }
  bool used(NodeId node, size_t output) const { return uses_[node][output] > 0; }
  // The graph's nodes such that what a head needs comes before it.
  std::vector<NodeId> order() const;

 private:
  void find_nodes();
  void find_dependents();
  void join_gradient(LossHead& gradient);
  void set_chunk(LossHead& head) const;
  void find_addend(LossHead& head) const;
  bool used_once(const Value& value) const { return uses_[value.node][value.output] == 1; }
  Value origin(Value value) const;
  std::vector<NodeId> needed_by(const LossHead& head) const;

  const Graph& graph_;
  int64_t chunks_;
  BackendLimits limits_;
  std::vector<bool> live_;
  std::vector<std::vector<int>> uses_;
  std::vector<bool> after_;  // which nodes need what any head gives
  std::vector<LossHead> heads_;
};

}  // namespace mstrain
