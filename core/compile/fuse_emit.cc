// Writes a graph again with its groups as single operations.
#include <algorithm>

#include "core/compile/fuse.h"
#include "core/ops/build.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

class Emitter {
 public:
  Emitter(const Graph& graph, const FusionGroups& groups)
      : graph_(graph), groups_(groups), trace_(Trace::Mode::kAbstract), results_(graph.size()) {}

  GraphPtr run() {
    for (const Value& value : graph_.inputs()) {
      results_[value.node] = {trace_.input(graph_.type(value))};
    }
    find_readers();
    const std::vector<bool> live = graph_.live();
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const int group = groups_.group_of[id];
      if (!live[id] || node.op == &kInputOp || is_lazy(id)) {
        continue;
      }
      if (group < 0) {
        record(id);
      } else if (group_at(group).members.back() == id) {
        emit(group_at(group));
      }
    }
    Tensors outputs;
    for (const Value& value : graph_.outputs()) {
      outputs.push_back(tensor(value));
    }
    return trace_.finish(outputs);
  }

 private:
  using Group = FusionGroups::Group;
  const Group& group_at(int i) const { return groups_.groups[static_cast<size_t>(i)]; }

  // A move of a member's value: written where something outside asks for it, after the group.
  bool is_lazy(NodeId id) const {
    return groups_.origin[id] && groups_.group_of[groups_.origin[id]->node] >= 0;
  }

  void record(NodeId id) {
    const Node& node = graph_.node(id);
    Tensors inputs;
    for (const Value& value : node.inputs) {
      inputs.push_back(tensor(value));
    }
    const PlaceScope place(node.place);
    results_[id] = trace_.record(*node.op, inputs, node.attrs, node.outputs, node.where);
  }

  const Tensor& tensor(const Value& value) {
    if (results_[value.node].empty()) {
      record(value.node);
    }
    return results_[value.node][value.output];
  }

  // The group that an operand of a member of `group` comes from within.
  bool is_inside(const Value& value, int group) const {
    const auto& origin = groups_.origin[value.node];
    return groups_.group_of[origin ? origin->node : value.node] == group;
  }

  // Marks the members' values that something outside reads.
  void find_readers() {
    leaves_.resize(graph_.size());
    const std::vector<bool> live = graph_.live();
    std::vector<bool> written(graph_.size(), false);  // outside of groups
    const auto read = [&](const Value& value) {
      leaves_[value.node].insert(value.output);
      written[value.node] = true;
    };
    for (const Value& value : graph_.outputs()) {
      read(value);
    }
    for (NodeId id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      if (!live[id] || (is_lazy(id) && !written[id])) {
        continue;
      }
      const int group = groups_.group_of[id];
      for (const Value& value : graph_.node(id).inputs) {
        if (group < 0 || !is_inside(value, group)) {
          read(value);
        }
      }
    }
  }

  // The number that a value is everywhere.
  std::optional<double> constant(Value value) const {
    while (graph_.node(value.node).op->order != Order::kOther) {
      value = graph_.node(value.node).inputs[0];
    }
    const Node& node = graph_.node(value.node);
    return node.op->repeats_number ? std::optional(node.attrs.number("value")) : std::nullopt;
  }

  // A group's program: what it takes, what it gives.
  struct Body {
    std::vector<Value> inputs, outputs;
  };

  void emit(const Group& group) {
    const int number = groups_.group_of[group.members[0]];
    Body body;
    for (NodeId id : group.members) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Value value = node.inputs[i];
        const bool taken =
            !is_inside(value, number) && (is_fused_parameter(*node.op, i) || !constant(value));
        if (taken &&
            std::find(body.inputs.begin(), body.inputs.end(), value) == body.inputs.end()) {
          body.inputs.push_back(value);
        }
      }
      for (uint32_t output : leaves_[id]) {
        body.outputs.push_back({id, output});
      }
    }
    Types types;
    Tensors given;
    for (const Value& value : body.inputs) {
      given.push_back(tensor(value));
      types.push_back(given.back().type());
    }
    Tensors captures;
    const GraphPtr program = trace_program(
        types, [&](std::span<const Tensor> in) { return replay_members(group, body, in); },
        &captures);
    const PlaceScope place(graph_.node(named_after(group)).place);
    const Tensors results = fused_program(program, group.extent, given);
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      Tensors& all = results_[body.outputs[i].node];
      all.resize(graph_.node(body.outputs[i].node).outputs.size());
      all[body.outputs[i].output] = results[i];
    }
  }

  Tensors replay_members(const Group& group, const Body& body, std::span<const Tensor> in) {
    std::map<Value, Tensor> known;
    for (size_t i = 0; i < in.size(); ++i) {
      known[body.inputs[i]] = in[i];
    }
    Trace& trace = *Trace::innermost();
    const std::function<Tensor(const Value&)> get = [&](const Value& value) -> Tensor {
      if (const auto found = known.find(value); found != known.end()) {
        return found->second;
      }
      const Node& node = graph_.node(value.node);
      if (const auto number = constant(value)) {
        return known[value] = filled(graph_.type(value), *number);
      }
      const Tensor moved = get(node.inputs[0]);
      const PlaceScope place(node.place);
      return known[value] = trace.record(*node.op, std::span(&moved, 1), node.attrs, node.outputs,
                                         node.where)[0];
    };
    for (NodeId id : group.members) {
      const Node& node = graph_.node(id);
      Tensors inputs;
      for (const Value& value : node.inputs) {
        inputs.push_back(get(value));
      }
      const PlaceScope place(node.place);
      const Tensors made = trace.record(*node.op, inputs, node.attrs, node.outputs, node.where);
      for (uint32_t i = 0; i < made.size(); ++i) {
        known[{id, i}] = made[i];
      }
    }
    Tensors outputs;
    for (const Value& value : body.outputs) {
      outputs.push_back(known.at(value));
    }
    return outputs;
  }

  // The member that says where in the model a group is: a norm or softmax, else the last.
  NodeId named_after(const Group& group) const {
    for (NodeId id : group.members) {
      const Node& node = graph_.node(id);
      if (node.op->kind == OpKind::kComposite) {
        return id;
      }
    }
    return group.members.back();
  }

  const Graph& graph_;
  const FusionGroups& groups_;
  Trace trace_;
  std::vector<Tensors> results_;
  std::vector<std::set<uint32_t>> leaves_;  // by node: outputs that something outside reads
};

}  // namespace

GraphPtr put_together(const Graph& graph, const FusionGroups& groups) {
  return Emitter(graph, groups).run();
}

}  // namespace mstrain
