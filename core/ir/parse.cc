#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "core/ir/cursor.h"
#include "core/ir/text.h"

namespace mstrain {
namespace {

// Far above any program, and far below what overflows sizes in bytes or the stack.
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr int kMaxDepth = 32;

class Parser {
 public:
  explicit Parser(std::string_view text) : cursor_(text) {}

  GraphPtr program() {
    GraphPtr result = graph(0);
    if (!cursor_.at_end()) {
      cursor_.fail_here("something follows the program");
    }
    return result;
  }

 private:
  using Nodes = std::unordered_map<int64_t, NodeId>;  // by printed number

  GraphPtr graph(int depth) {
    if (depth > kMaxDepth) {
      cursor_.fail_here(fmt::format("programs are nested deeper than {}", kMaxDepth));
    }
    cursor_.expect("graph");
    cursor_.expect("{");
    auto result = std::make_shared<Graph>();
    Nodes nodes;
    while (cursor_.peek() == '%') {
      node(*result, nodes, depth);
    }
    cursor_.expect("return");
    std::vector<Value> outputs;
    while (cursor_.peek() == '%') {
      outputs.push_back(value(*result, nodes));
      if (!cursor_.accept(",")) {
        break;
      }
    }
    cursor_.expect("}");
    result->set_outputs(std::move(outputs));
    return result;
  }

  void node(Graph& graph, Nodes& nodes, int depth) {
    cursor_.expect("%");
    const size_t start = cursor_.position();
    const int64_t number = cursor_.integer();
    const int64_t results = cursor_.accept(":") ? cursor_.integer() : 1;
    cursor_.expect("=");
    const size_t name_start = cursor_.position();
    const std::string_view name = cursor_.word("the name of an operation");
    const OpDef* op = name == kInputOp.name ? &kInputOp : find_op(name);
    if (op == nullptr) {
      unknown_op(name_start, name);
    }
    cursor_.expect("(");
    std::vector<Value> inputs;
    if (!cursor_.accept(")")) {
      do {
        inputs.push_back(value(graph, nodes));
      } while (cursor_.accept(","));
      cursor_.expect(")");
    }
    Attrs attrs = cursor_.accept("{") ? attributes(depth) : Attrs();
    Types types;
    if (cursor_.accept(":")) {
      do {
        types.push_back(type());
      } while (cursor_.accept(","));
    }
    if (static_cast<int64_t>(types.size()) != results) {
      cursor_.fail_at(start, fmt::format("{} results with {} types", results, types.size()));
    }
    Place place = cursor_.accept("@") ? this->place() : Place();
    NodeId id = 0;
    if (op == &kInputOp) {
      if (!inputs.empty() || types.size() != 1 || !attrs.items().empty()) {
        cursor_.fail_at(start, "an input has one type and nothing else");
      }
      id = graph.add_input(types[0]).node;
    } else {
      check_types(graph, *op, inputs, attrs, types, start);
      id = graph.add(*op, std::move(inputs), std::move(attrs), std::move(types), std::move(place));
    }
    if (!nodes.emplace(number, id).second) {
      cursor_.fail_at(start, fmt::format("%{} is defined twice", number));
    }
  }

  // backward, "h.3" or both
  Place place() {
    Place place;
    if (cursor_.peek() != '"') {
      const size_t start = cursor_.position();
      const std::string_view name = cursor_.word("a part of the step or a scope");
      for (StepPart part : {StepPart::kForward, StepPart::kBackward, StepPart::kUpdate}) {
        place.part = name == name_of(part) ? part : place.part;
      }
      if (name != name_of(place.part)) {
        cursor_.fail_at(start, fmt::format("'{}' is no part of a step; there are forward, "
                                           "backward and update",
                                           name));
      }
    }
    place.scope = cursor_.peek() == '"' ? cursor_.quoted() : std::string();
    return place;
  }

  [[noreturn]] void unknown_op(size_t at, std::string_view name) {
    std::vector<std::string> names;
    for (const OpDef* op : all_ops()) {
      names.emplace_back(op->name);
    }
    cursor_.fail_at(at, fmt::format("unknown operation {}{}", name, did_you_mean(name, names)));
  }

  void check_types(const Graph& graph, const OpDef& op, const std::vector<Value>& inputs,
                   const Attrs& attrs, const Types& stated, size_t at) {
    Types given;
    for (const Value& input : inputs) {
      given.push_back(graph.type(input));
    }
    Types types;
    try {
      types = op.infer(given, attrs);
    } catch (const Error& error) {
      cursor_.fail_at(at, fmt::format("{}: {}", op.name, error.what()));
    }
    if (types != stated) {
      std::string list;
      for (const TensorType& type : types) {
        list += (list.empty() ? "" : ", ") + to_string(type);
      }
      cursor_.fail_at(at,
                      fmt::format("{}: the results are {}", op.name, list.empty() ? "none" : list));
    }
  }

  Value value(const Graph& graph, const Nodes& nodes) {
    cursor_.expect("%");
    const size_t start = cursor_.position();
    const int64_t number = cursor_.integer();
    const int64_t output = cursor_.accept(".") ? cursor_.integer() : 0;
    const auto found = nodes.find(number);
    if (found == nodes.end()) {
      cursor_.fail_at(start, fmt::format("%{} is not defined above", number));
    }
    const auto count = static_cast<int64_t>(graph.node(found->second).outputs.size());
    if (output < 0 || output >= count) {
      cursor_.fail_at(start,
                      fmt::format("%{} has {} results, not a result {}", number, count, output));
    }
    return {found->second, static_cast<uint32_t>(output)};
  }

  Attrs attributes(int depth) {
    Attrs attrs;
    do {
      const size_t start = cursor_.position();
      const std::string_view name = cursor_.word("the name of an attribute");
      if (attrs.find(name) != nullptr) {
        cursor_.fail_at(start, fmt::format("attribute {} is given twice", name));
      }
      cursor_.expect("=");
      attrs.set(name, attribute(depth));
    } while (cursor_.accept(","));
    cursor_.expect("}");
    return attrs;
  }

  Attr attribute(int depth) {
    const char first = cursor_.peek();
    if (first == '"') {
      return cursor_.quoted();
    }
    if (first == '[') {
      return shape(-kMaxElements);
    }
    if ((first >= '0' && first <= '9') || first == '-') {
      return numeral();
    }
    const size_t start = cursor_.position();
    const std::string_view word = cursor_.word("an attribute");
    if (word == "graph") {
      cursor_.rewind(start);
      return graph(depth + 1);
    }
    if (word == "true" || word == "false") {
      return word == "true";
    }
    if (word == "inf") {
      return std::numeric_limits<double>::infinity();
    }
    if (word == "nan") {
      return nan();
    }
    if (const auto dtype = parse_dtype(word)) {
      return *dtype;
    }
    cursor_.fail_at(start, fmt::format("'{}' is no attribute", word));
  }

  double nan() {
    if (!cursor_.accept("(")) {
      return std::bit_cast<double>(uint64_t{0x7ff8000000000000});
    }
    const size_t start = cursor_.position();
    const auto result = std::bit_cast<double>(cursor_.hexadecimal());
    cursor_.expect(")");
    if (result == result) {
      cursor_.fail_at(start, "these bits are no NaN");
    }
    return result;
  }

  Attr numeral() {
    if (cursor_.accept("-inf")) {
      return -std::numeric_limits<double>::infinity();
    }
    const size_t start = cursor_.position();
    const std::string_view text = cursor_.numeral();
    const char* end = text.data() + text.size();
    int64_t integer = 0;
    if (const auto read = std::from_chars(text.data(), end, integer);
        read.ptr == end && read.ec == std::errc()) {
      return integer;
    }
    double number = 0;
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ptr != end || read.ec != std::errc() ||
        text.find_first_of(".eE") == std::string_view::npos) {
      cursor_.fail_at(start, fmt::format("'{}' is no number of 64 bits", text.substr(0, 40)));
    }
    return number;
  }

  Shape shape(int64_t least) {
    cursor_.expect("[");
    Shape result;
    if (cursor_.accept("]")) {
      return result;
    }
    do {
      const size_t start = cursor_.position();
      const int64_t dim = cursor_.integer();
      if (result.rank() == kMaxRank || dim < least || dim > kMaxElements) {
        cursor_.fail_at(start, result.rank() == kMaxRank ? "too many dims" : "a dim out of range");
      }
      result.push_back(dim);
    } while (cursor_.accept(","));
    cursor_.expect("]");
    return result;
  }

  TensorType type() {
    const size_t start = cursor_.position();
    const std::string_view name = cursor_.word("a type");
    const auto dtype = parse_dtype(name);
    if (!dtype) {
      cursor_.fail_at(start, fmt::format("unknown dtype {}", name));
    }
    TensorType result{*dtype, shape(0)};
    int64_t elements = 1;
    for (int64_t dim : result.shape) {
      if (dim > 0 && elements > kMaxElements / dim) {
        cursor_.fail_at(start, "a tensor of more than 2^48 elements");
      }
      elements *= std::max<int64_t>(dim, 1);
    }
    return result;
  }

  TextCursor cursor_;
};

}  // namespace

GraphPtr parse_graph(std::string_view text) { return Parser(text).program(); }

}  // namespace mstrain
