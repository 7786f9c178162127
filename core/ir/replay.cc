#include "core/ir/replay.h"

#include "core/base/error.h"
#include "core/ir/error_place.h"

namespace mstrain {

Replay::Replay(const Graph& graph, std::span<const Tensor> inputs)
    : graph_(graph), live_(graph.live()), results_(graph.size()) {
  check(inputs.size() == graph.inputs().size(), "a program of {} inputs was given {}",
        graph.inputs().size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    results_[graph.inputs()[i].node] = {inputs[i]};
  }
  go_to_next();
}

void Replay::go_to_next() {
  while (next_ < graph_.size() && (!live_[next_] || graph_.node(next_).op == &kInputOp)) {
    ++next_;
  }
}

void Replay::apply_next() {
  const Node& node = graph_.node(next_);
  arguments_.clear();
  for (const Value& value : node.inputs) {
    arguments_.push_back(results_[value.node][value.output]);
  }
  const PlaceScope place = PlaceScope::again(node.place);
  const WhereScope where(node.where);
  results_[next_] = apply(*node.op, arguments_, node.attrs, node.where);
  ++next_;
  go_to_next();
}

Tensors Replay::outputs() const {
  Tensors outputs;
  for (const Value& value : graph_.outputs()) {
    outputs.push_back(results_[value.node][value.output]);
  }
  return outputs;
}

Tensors replay(const Graph& graph, std::span<const Tensor> inputs) {
  Replay replay(graph, inputs);
  while (replay.next() != nullptr) {
    replay.apply_next();
  }
  return replay.outputs();
}

}  // namespace mstrain
