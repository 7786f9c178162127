#include "core/ir/verify.h"

namespace mstrain {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, std::string_view after) : graph_(graph), after_(after) {}

  void run() {
    size_t inputs = 0;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      require(node.op != nullptr, id, "has no operation");
      for (const Value& value : node.inputs) {
        require(value.node < id, id,
                fmt::format("uses %{}, which does not precede it", value.node));
        require(exists(value), id,
                fmt::format("uses result {} of %{}, which has fewer", value.output, value.node));
      }
      verify_programs(id, node);
      if (node.op == &kInputOp) {
        verify_input(id, node, inputs++);
      }
      verify_types(id, node);
    }
    check(inputs == graph_.inputs().size(), "{}the program lists {} inputs and has {}", prefix(),
          graph_.inputs().size(), inputs);
    for (const Value& value : graph_.outputs()) {
      check(value.node < graph_.size() && exists(value),
            "{}an output is result {} of %{}, which does not exist", prefix(), value.output,
            value.node);
    }
  }

 private:
  bool exists(const Value& value) const {
    return value.output < graph_.node(value.node).outputs.size();
  }

  std::string prefix() const { return after_.empty() ? "" : fmt::format("after {}: ", after_); }

  void require(bool holds, NodeId id, std::string_view what) const {
    if (holds) [[likely]] {
      return;
    }
    const Node& node = graph_.node(id);
    fail("{}%{} = {} {}{}", prefix(), id, node.op == nullptr ? "?" : node.op->name, what,
         node.place.scope.empty() ? "" : fmt::format(", in {}", node.place.scope));
  }

  void verify_programs(NodeId id, const Node& node) const {
    for (const auto& [name, attr] : node.attrs.items()) {
      if (const GraphPtr* body = std::get_if<GraphPtr>(&attr)) {
        require(*body != nullptr, id, fmt::format("has no program as {}", name));
        try {
          verify(**body);
        } catch (const Error& error) {
          require(false, id, fmt::format("has an invalid {}: {}", name, error.what()));
        }
      }
    }
  }

  void verify_input(NodeId id, const Node& node, size_t number) const {
    require(node.inputs.empty(), id, "is an input with inputs of its own");
    require(number < graph_.inputs().size() && graph_.inputs()[number] == Value{id, 0}, id,
            fmt::format("is not listed as input {}", number));
    require(node.attrs.integer("index") == static_cast<int64_t>(number), id,
            fmt::format("does not have the index {}", number));
  }

  void verify_types(NodeId id, const Node& node) const {
    Types given;
    for (const Value& value : node.inputs) {
      given.push_back(graph_.type(value));
    }
    Types types;
    try {
      types = node.op->infer(given, node.attrs);
    } catch (const Error& error) {
      require(false, id, fmt::format("does not fit its inputs: {}", error.what()));
    }
    require(types.size() == node.outputs.size(), id,
            fmt::format("has {} results, not {}", node.outputs.size(), types.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      require(types[i] == node.outputs[i], id,
              fmt::format("has {} as result {}, not {}", to_string(node.outputs[i]), i,
                          to_string(types[i])));
    }
  }

  const Graph& graph_;
  std::string_view after_;
};

}  // namespace

void verify(const Graph& graph, std::string_view after) { Verifier(graph, after).run(); }

}  // namespace mstrain
