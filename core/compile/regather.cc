#include "core/compile/regather.h"

#include <array>
#include <map>

#include "core/compile/rewrite.h"
#include "core/ops/control.h"

namespace mstrain {
namespace {

// Whether a node shows its operand as it is: moves, and the marks of what derivatives are taken by.
bool passes_on(const Node& node) {
  return node.op->alias != nullptr && node.inputs.size() == 1 && node.outputs.size() == 1;
}

int64_t bytes_of(std::span<const TensorType> types) {
  int64_t bytes = 0;
  for (const TensorType& type : types) {
    bytes += type.bytes();
  }
  return bytes;
}

bool is_gather(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op->kind != OpKind::kCollective || node.inputs.size() != 1) {
    return false;
  }
  const Value& from = node.inputs[0];
  return graph.node(from.node).op == &kInputOp && bytes_of(node.outputs) > graph.type(from).bytes();
}

// By node: whether it is a gather, or shows one.
std::vector<bool> gathered_nodes(const Graph& graph) {
  std::vector<bool> gathered(graph.size(), false);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    gathered[id] = is_gather(graph, id) || (passes_on(node) && gathered[node.inputs[0].node]);
  }
  return gathered;
}

class Regather {
 public:
  // What stands in for `x`, which shows a gather: the same, gathered after `anchor`.
  Tensor after(const Tensor& x, const Tensor& anchor) {
    const Trace& trace = *Trace::innermost();
    const Value value = *x.value_in(trace);
    if (const auto found = again_.find(value.node); found != again_.end()) {
      return found->second;
    }
    // By value: the trace's graph grows.
    const Node node = trace.graph().node(value.node);
    const Tensor from = trace.tensor_of(node.inputs[0]);
    const Tensor moved =
        passes_on(node) ? after(from, anchor) : barrier(std::array{from, anchor})[0];
    const Tensor made = apply(*node.op, std::span(&moved, 1), node.attrs, node.where)[0];
    return again_.emplace(value.node, made).first->second;
  }

 private:
  std::map<NodeId, Tensor> again_;  // by node of the new graph
};

}  // namespace

GraphPtr regathered(const Graph& graph) {
  const std::vector<bool> gathered = gathered_nodes(graph);
  Regather regather;
  const auto rule = [&](const RewriteNode& it) -> std::optional<Tensors> {
    if (it.node.place.part != StepPart::kBackward || passes_on(it.node)) {
      return std::nullopt;
    }
    // What the backward pass has made marks the time.
    const Tensor* anchor = nullptr;
    for (size_t i = 0; i < it.inputs.size(); ++i) {
      const Node* const made = producer(it.inputs[i]);
      if (made != nullptr && made->place.part == StepPart::kBackward &&
          !gathered[it.node.inputs[i].node]) {
        anchor = &it.inputs[i];
      }
    }
    Tensors inputs(it.inputs.begin(), it.inputs.end());
    bool any = false;
    for (size_t i = 0; i < inputs.size() && anchor != nullptr; ++i) {
      if (gathered[it.node.inputs[i].node]) {
        inputs[i] = regather.after(inputs[i], *anchor);
        any = true;
      }
    }
    return any ? std::optional(apply(*it.node.op, inputs, it.node.attrs, it.node.where))
               : std::nullopt;
  };
  return rewrite(graph, rule);
}

}  // namespace mstrain
