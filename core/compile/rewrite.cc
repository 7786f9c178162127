#include "core/compile/rewrite.h"

namespace mstrain {

GraphPtr rewrite(const Graph& graph, const RewriteRule& rule, std::span<const NodeId> order) {
  Trace trace(Trace::Mode::kAbstract);
  std::vector<Tensors> results(graph.size());
  for (const Value& value : graph.inputs()) {
    results[value.node] = {trace.input(graph.type(value))};
  }
  const std::vector<bool> live = graph.live();
  Tensors inputs;
  std::optional<PlaceScope> place;
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId id = order.empty() ? static_cast<NodeId>(i) : order[i];
    const Node& node = graph.node(id);
    if (!live[id] || node.op == &kInputOp) {
      continue;
    }
    inputs.clear();
    for (const Value& value : node.inputs) {
      inputs.push_back(results[value.node][value.output]);
    }
    // Neighbours mostly share their place.
    if (PartScope::current() != node.place.part || NameScope::path() != node.place.scope) {
      place.reset();
      place.emplace(node.place);
    }
    std::optional<Tensors> replaced = rule({node, inputs, results});
    results[id] = replaced ? std::move(*replaced)
                           : trace.record(*node.op, inputs, node.attrs, node.outputs, node.where);
  }
  Tensors outputs;
  for (const Value& value : graph.outputs()) {
    outputs.push_back(results[value.node][value.output]);
  }
  return trace.finish(outputs);
}

const Node* producer(const Tensor& tensor) {
  const Trace& trace = *Trace::innermost();
  const auto value = tensor.value_in(trace);
  if (!value) {
    return nullptr;
  }
  const Node& node = trace.graph().node(value->node);
  return node.op == &kInputOp ? nullptr : &node;
}

Tensors inputs_of(const Tensor& tensor) {
  const Trace& trace = *Trace::innermost();
  Tensors inputs;
  for (const Value& value : producer(tensor)->inputs) {
    inputs.push_back(trace.tensor_of(value));
  }
  return inputs;
}

std::optional<double> constant_value(const Tensor& tensor) {
  const Node* node = producer(tensor);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (node->op->repeats_number) {
    return node->attrs.number("value");
  }
  return node->op->order == Order::kOther ? std::nullopt : constant_value(inputs_of(tensor)[0]);
}

std::vector<std::vector<int>> uses_of(const Graph& graph) {
  std::vector<std::vector<int>> uses(graph.size());
  const std::vector<bool> live = graph.live();
  for (NodeId id = 0; id < graph.size(); ++id) {
    uses[id].resize(graph.node(id).outputs.size());
    for (const Value& value : graph.node(id).inputs) {
      uses[value.node][value.output] += live[id] ? 1 : 0;
    }
  }
  for (const Value& value : graph.outputs()) {
    ++uses[value.node][value.output];
  }
  return uses;
}

}  // namespace mstrain
