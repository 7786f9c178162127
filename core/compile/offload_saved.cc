// What the forward pass leaves for the backward pass waits in the host's memory.
#include <algorithm>
#include <map>

#include "core/compile/rewrite.h"
#include "core/ops/offload.h"

namespace mstrain {
namespace {

// Whether a node shows its operand as it is.
bool is_view(const Node& node) { return node.op->alias != nullptr && node.inputs.size() == 1; }

class Offload {
 public:
  Offload(const Graph& graph, int64_t least) : graph_(graph), live_(graph.live()) {
    std::map<NodeId, std::vector<Value>> read;  // by first reader
    std::map<Value, NodeId> reader;
    for (NodeId id = 0; id < graph.size(); ++id) {
      const Node& node = graph.node(id);
      if (!live_[id] || node.place.part != StepPart::kBackward || is_view(node)) {
        continue;
      }
      for (const Value& value : node.inputs) {
        const Value root = root_of(value);
        if (is_saved(root) && graph.type(root).bytes() >= least &&
            reader.emplace(root, id).second) {
          read[id].push_back(root);
        }
      }
    }
    int64_t most = 0;
    const auto bytes_of = [&](const std::vector<Value>& values) {
      int64_t bytes = 0;
      for (const Value& value : values) {
        bytes += graph.type(value).bytes();
      }
      return bytes;
    };
    for (const auto& [id, values] : read) {
      most = std::max(most, bytes_of(values));
    }
    // What would come back as soon as it is gone stays.
    int64_t stays = 0;
    for (const auto& [id, values] : read) {
      stays += bytes_of(values);
      for (const Value& value : values) {
        if (stays > most) {
          stowed_[value] = Tensor();
          ids_[&graph.node(value.node)] = value.node;
        }
      }
    }
  }

  GraphPtr run() {
    return rewrite(graph_, [&](const RewriteNode& it) -> std::optional<Tensors> {
      return it.node.place.part == StepPart::kBackward ? backward(it) : forward(it);
    });
  }

 private:
  Value root_of(Value value) const {
    while (is_view(graph_.node(value.node))) {
      value = graph_.node(value.node).inputs[0];
    }
    return value;
  }

  // Neither an argument nor what ranks put together, which has a key of its own (parallel.zero.regather).
  bool is_saved(const Value& root) const {
    const Node& node = graph_.node(root.node);
    return node.place.part == StepPart::kForward && node.op != &kInputOp &&
           node.op->kind != OpKind::kSource && !node.op->among_ranks;
  }

  std::optional<Tensors> forward(const RewriteNode& it) {
    const auto id = ids_.find(&it.node);
    if (id == ids_.end()) {
      return std::nullopt;
    }
    Tensors made = apply(*it.node.op, it.inputs, it.node.attrs, it.node.where);
    for (uint32_t o = 0; o < made.size(); ++o) {
      if (const auto found = stowed_.find(Value{id->second, o}); found != stowed_.end()) {
        found->second = stow(made[o]);
      }
    }
    return made;
  }

  std::optional<Tensors> backward(const RewriteNode& it) {
    if (is_view(it.node)) {
      return std::nullopt;
    }
    Tensors inputs(it.inputs.begin(), it.inputs.end());
    bool any = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (stowed_.contains(root_of(it.node.inputs[i]))) {
        inputs[i] = brought(it.node.inputs[i]);
        any = true;
      }
    }
    return any ? std::optional(apply(*it.node.op, inputs, it.node.attrs, it.node.where))
               : std::nullopt;
  }

  Tensor brought(const Value& value) {
    if (const auto found = brought_.find(value.node); found != brought_.end()) {
      return found->second[value.output];
    }
    const Node& node = graph_.node(value.node);
    if (!is_view(node)) {
      Tensor& made = fetched_[value];
      made = made.defined() ? made : fetch(stowed_.at(value));
      return made;
    }
    const Tensor from = brought(node.inputs[0]);
    Tensors made = apply(*node.op, std::span(&from, 1), node.attrs, node.where);
    return brought_.emplace(value.node, std::move(made)).first->second[value.output];
  }

  const Graph& graph_;
  std::vector<bool> live_;
  std::map<Value, Tensor> stowed_;     // empty until it is made
  std::map<const Node*, NodeId> ids_;  // of what makes them
  std::map<Value, Tensor> fetched_;
  std::map<NodeId, Tensors> brought_;  // views of them
};

}  // namespace

GraphPtr offload_saved(const Graph& graph, int64_t least) { return Offload(graph, least).run(); }

}  // namespace mstrain
