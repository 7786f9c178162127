// Rebuilds a graph node by node: the one way in which passes change programs.
#pragma once

#include <functional>
#include <optional>

#include "core/ir/tensor.h"

namespace mstrain {

// A node of the old graph whose inputs have been rebuilt.
struct RewriteNode {
  const Node& node;
  std::span<const Tensor> inputs;
  const std::vector<Tensors>&
      rebuilt;  // by node of the old graph; empty where it has not been rebuilt
};

// What stands in for a node: one tensor per output, or nothing to keep the operation as it is.
using RewriteRule = std::function<std::optional<Tensors>(const RewriteNode& node)>;

// `graph` with `rule` applied to every live node, inputs first. Inputs keep their number and order. `order`: all nodes,
// each after its inputs, where it is not to be that of the graph.
GraphPtr rewrite(const Graph& graph, const RewriteRule& rule, std::span<const NodeId> order = {});

// The node that computes `tensor` in the trace being rewritten; null for an input of the program.
const Node* producer(const Tensor& tensor);
// Its inputs.
Tensors inputs_of(const Tensor& tensor);

// The number that every element of `tensor` is, where it is a (repeated) constant.
std::optional<double> constant_value(const Tensor& tensor);

// How often each value is read by live nodes and as an output: by node, output.
std::vector<std::vector<int>> uses_of(const Graph& graph);

}  // namespace mstrain
