#include "core/ir/text.h"

#include <bit>
#include <cmath>

namespace mstrain {
namespace {

constexpr uint64_t kNan = 0x7ff8000000000000;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

// The shortest decimals that read back to the same bits, never like an integer.
std::string number(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  if (std::isnan(value)) {
    return bits == kNan ? "nan" : fmt::format("nan({:#x})", bits);
  }
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".einf") == std::string::npos ? text + ".0" : text;
}

std::string print(const Graph& graph, int indent);

struct Printer {
  int indent;
  std::string operator()(bool x) const { return x ? "true" : "false"; }
  std::string operator()(int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(double x) const { return number(x); }
  std::string operator()(Dtype x) const { return std::string(name_of(x)); }
  std::string operator()(const Shape& x) const { return to_string(x); }
  std::string operator()(const std::string& x) const { return quoted(x); }
  std::string operator()(const GraphPtr& x) const { return print(*x, indent); }
};

std::string print(const Value& value, const Graph& graph, const std::vector<size_t>& numbers) {
  const std::string name = fmt::format("%{}", numbers[value.node]);
  return graph.node(value.node).outputs.size() == 1 ? name
                                                    : fmt::format("{}.{}", name, value.output);
}

std::string print(const std::vector<Value>& values, const Graph& graph,
                  const std::vector<size_t>& numbers) {
  std::string result;
  for (const Value& value : values) {
    result += result.empty() ? "" : ", ";
    result += print(value, graph, numbers);
  }
  return result;
}

std::string print(const Node& node, size_t number, const std::string& inputs, int indent) {
  std::string line = fmt::format("%{}", number);
  if (node.outputs.size() != 1) {
    line += fmt::format(":{}", node.outputs.size());
  }
  line += fmt::format(" = {}({})", node.op->name, inputs);
  // The attributes of an input follow from its type and its place among the inputs.
  if (node.op != &kInputOp && !node.attrs.items().empty()) {
    std::string attrs;
    for (const auto& [name, value] : node.attrs.items()) {
      attrs += fmt::format("{}{}={}", attrs.empty() ? "" : ", ", name, to_text(value, indent));
    }
    line += fmt::format(" {{{}}}", attrs);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    line += fmt::format("{} {}", i == 0 ? " :" : ",", to_string(node.outputs[i]));
  }
  const bool forward = node.place.part == StepPart::kForward;
  const bool named = !node.place.scope.empty();
  if (!forward || named) {
    line += fmt::format("  @{}{}{}", forward ? "" : name_of(node.place.part),
                        !forward && named ? " " : "", named ? quoted(node.place.scope) : "");
  }
  return line;
}

std::string print(const Graph& graph, int indent) {
  std::vector<bool> wanted = graph.live();
  for (const Value& value : graph.inputs()) {
    wanted[value.node] = true;
  }
  const std::string margin(static_cast<size_t>(indent) + 2, ' ');
  std::vector<size_t> numbers(graph.size(), 0);
  size_t next = 0;
  std::string text = "graph {\n";
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (wanted[id]) {
      const Node& node = graph.node(id);
      numbers[id] = next++;
      text +=
          margin + print(node, numbers[id], print(node.inputs, graph, numbers), indent + 2) + '\n';
    }
  }
  const std::string outputs = print(graph.outputs(), graph, numbers);
  return text + margin + (outputs.empty() ? "return" : "return " + outputs) + '\n' +
         std::string(static_cast<size_t>(indent), ' ') + '}';
}

}  // namespace

std::string to_text(const Attr& attr, int indent) { return std::visit(Printer{indent}, attr); }

std::string to_text(const Graph& graph) { return print(graph, 0) + '\n'; }

}  // namespace mstrain
