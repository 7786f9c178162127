#include "core/ir/dot.h"

#include "core/ir/text.h"

namespace mstrain {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result;
}

std::string label_of(const Node& node) {
  std::string label(node.op->name);
  for (const auto& [name, value] : node.attrs.items()) {
    if (!std::holds_alternative<GraphPtr>(value)) {
      label += fmt::format("\n{}={}", name, to_text(value));
    }
  }
  std::string result;
  for (const char c : escaped(label)) {
    result += c == '\n' ? "\\n" : std::string(1, c);
  }
  return result;
}

// Nodes of `graph` are named by `prefix` and their number.
void write(const Graph& graph, const std::string& prefix, std::string& text) {
  std::vector<bool> wanted = graph.live();
  for (const Value& value : graph.inputs()) {
    wanted[value.node] = true;
  }
  const auto edge = [&](const Value& from, const std::string& to) {
    text += fmt::format("  {}{} -> {} [label=\"{}\"];\n", prefix, from.node, to,
                        to_string(graph.type(from)));
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!wanted[id]) {
      continue;
    }
    const Node& node = graph.node(id);
    const std::string name = fmt::format("{}{}", prefix, id);
    text += fmt::format("  {} [label=\"{}\", shape={}, tooltip=\"{}\"];\n", name, label_of(node),
                        node.op->kind == OpKind::kSource ? "ellipse" : "box",
                        escaped(to_string(node.place)));
    for (const Value& value : node.inputs) {
      edge(value, name);
    }
    for (const auto& [attribute, value] : node.attrs.items()) {
      if (const GraphPtr* body = std::get_if<GraphPtr>(&value)) {
        const std::string inside = fmt::format("{}_{}_", name, attribute);
        text += fmt::format("  subgraph cluster_{} {{\n  label=\"{} of {}\";\n", inside, attribute,
                            node.op->name);
        write(**body, inside, text);
        text += "  }\n";
      }
    }
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const std::string name = fmt::format("{}result{}", prefix, i);
    text += fmt::format("  {} [label=\"result {}\", shape=plaintext];\n", name, i);
    edge(graph.outputs()[i], name);
  }
}

}  // namespace

std::string to_dot(const Graph& graph) {
  std::string text = "digraph program {\n";
  write(graph, "n", text);
  return text + "}\n";
}

}  // namespace mstrain
