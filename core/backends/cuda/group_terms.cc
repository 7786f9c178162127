#include "core/backends/cuda/group_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/backends/cuda/group.h"
#include "core/backends/cuda/walk.h"
#include "core/ops/elementwise.h"

namespace mstrain::cuda {
namespace {

using Kind = Term::Kind;

std::string number_text(double value, Dtype dtype) {
  return fmt::format("number<{}>({:#x}UL)", format_of(dtype), std::bit_cast<uint64_t>(value));
}

// Where an element lies: from its row and column where the dims split there, and the kernel knows these.
std::string element_text(const ViewType& view, const FusedExtent& extent, bool by_rows) {
  const Walk walk = walk_of(view);
  const size_t rank = walk.dims.size();
  if (rank == 0 || (rank == 1 && walk.strides[0] == 1)) {
    return rank == 0 ? "0" : "i";
  }
  if (!by_rows) {
    return offset_text(walk, 0, rank, "i");
  }
  Walk split = walk;
  int64_t inside = 1;
  for (size_t d = rank; d-- > 0;) {
    inside *= walk.dims[d];
    if (inside >= extent.n) {
      if (inside % extent.n != 0 || extent.n % (inside / walk.dims[d]) != 0) {
        break;
      }
      const int64_t outer = inside / extent.n;  // of this dim, that belongs to rows
      if (outer > 1) {
        const int64_t inner = walk.dims[d] / outer;
        split.dims[d] = outer;
        split.strides[d] = walk.strides[d] * inner;
        if (inner > 1) {
          split.dims.insert(split.dims.begin() + static_cast<int64_t>(d) + 1, inner);
          split.strides.insert(split.strides.begin() + static_cast<int64_t>(d) + 1,
                               walk.strides[d]);
        }
      }
      const size_t cut = outer > 1 ? d + 1 : d;
      return fmt::format("{} + {}", offset_text(split, 0, cut, "r"),
                         offset_text(split, cut, split.dims.size(), "c"));
    }
  }
  return offset_text(walk, 0, rank, "i");
}

// So many neighbours lie side by side, wherever a multiple of them begins.
int64_t unit_of(const Walk& walk) {
  if (walk.strides.empty() || walk.strides.back() != 1) {
    return 0;
  }
  constexpr int64_t kMost = 8;
  int64_t unit = walk.dims.size() > 1 ? std::gcd(kMost, walk.dims.back()) : kMost;
  for (size_t d = 0; d + 1 < walk.strides.size(); ++d) {
    unit = std::gcd(unit, walk.strides[d]);
  }
  return unit;
}

class Builder {
 public:
  Builder(const KernelRequest& request, const GroupBody& body)
      : body_(*body.graph), live_(body_.live()), values_(body_.size()) {
    result_.extent = body.extent;
    result_.inputs.assign(request.inputs.begin(), request.inputs.end());
    result_.outputs.assign(request.outputs.begin(), request.outputs.end());
    result_.title = fused_name(body_);
    result_.by_rows = needs_rows();
  }

  GroupTerms run() {
    for (NodeId id = 0; id < body_.size(); ++id) {
      if (live_[id] && body_.node(id).op != &kInputOp) {
        values_[id].assign(body_.node(id).outputs.size(), -1);
        add(id);
      }
    }
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      const Value value = body_.outputs()[i];
      const bool sum =
          std::ranges::any_of(sums_, [&](const auto& known) { return known.first == value; });
      const Sink::Kind kind = sum ? sums_.at(value).kind : Sink::Kind::kStore;
      int term = sum ? sums_.at(value).term : operand(value);
      const bool by_element =
          result_.extent.elements() > 1 && (result_.extent.n > 1 || !result_.by_rows);
      if (!sum && by_element && is_full(body_.type(value)) &&
          result_.terms[static_cast<size_t>(term)].kind != Kind::kFull) {
        term = full(body_.type(value).dtype, "$0", {term});  // a number that is every element
      }
      result_.sinks.push_back(
          {kind, term, static_cast<int>(i), format_of(body_.type(value).dtype)});
    }
    finish();
    return std::move(result_);
  }

 private:
  struct PendingSum {
    Sink::Kind kind;
    int term;
  };

  // Whether something is known once a row, or wanted by columns.
  bool needs_rows() const {
    for (NodeId id = 0; id < body_.size(); ++id) {
      const Node& node = body_.node(id);
      if (!live_[id]) {
        continue;
      }
      if (node.op == &kInputOp) {
        if (!is_full(node.outputs[0])) {
          return true;
        }
        continue;
      }
      const FusedRole role = role_of(node);
      const bool follows =
          role == FusedRole::kMap || role == FusedRole::kMove || role == FusedRole::kConstant;
      if (follows ? !is_full(node.outputs[0]) : role != FusedRole::kFoldAll) {
        return true;
      }
    }
    return false;
  }

  FusedRole role_of(const Node& node) const {
    return *fused_role(*node.op, node.attrs, body_.types(node.inputs), node.outputs, result_.extent,
                       kLongestRow);
  }

  int add_term(Kind kind, std::string type, std::string expression, std::vector<int> operands) {
    Term term{kind, std::move(type), std::move(expression), std::move(operands)};
    for (int operand : term.operands) {
      term.level = std::max(term.level, result_.terms[static_cast<size_t>(operand)].level);
    }
    term.level += kind == Kind::kFold ? 1 : 0;
    result_.terms.push_back(std::move(term));
    return static_cast<int>(result_.terms.size()) - 1;
  }
  int full(Dtype dtype, std::string expression, std::vector<int> operands) {
    return add_term(Kind::kFull, held_by(dtype), std::move(expression), std::move(operands));
  }
  int once_a_row(Dtype dtype, std::string expression, std::vector<int> operands) {
    return add_term(Kind::kRow, held_by(dtype), std::move(expression), std::move(operands));
  }
  int fold(Dtype dtype, const char* how, int operand) {
    return add_term(Kind::kFold, held_by(dtype), how, {operand});
  }

  bool is_full(const TensorType& type) const {
    return type.elements() == result_.extent.elements();
  }
  int walked(const TensorType& type, std::string expression, std::vector<int> operands) {
    return is_full(type) ? full(type.dtype, std::move(expression), std::move(operands))
                         : once_a_row(type.dtype, std::move(expression), std::move(operands));
  }

  int operand(const Value& value, bool parameter = false) {
    if (body_.node(value.node).op != &kInputOp) {
      return values_[value.node][value.output];
    }
    const auto [known, fresh] = loads_.try_emplace({value, parameter}, 0);
    if (fresh) {
      known->second = load(value, parameter);
    }
    return known->second;
  }
  int load(const Value& value, bool parameter) {
    const auto& inputs = body_.inputs();
    const auto at =
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin());
    const ViewType& view = result_.inputs[at];
    const auto text = [&](const std::string& offset) {
      return fmt::format("{}::load(in{}[{}])", format_of(view.type.dtype), at, offset);
    };
    const Walk walk = walk_of(view);
    if (walk.dims.empty() && result_.extent.elements() > 1) {  // one number for all
      return once_a_row(view.type.dtype, text("0"), {});
    }
    if (!parameter && !is_full(view.type)) {
      const int term = once_a_row(view.type.dtype, text(offset_text(walk, "r")), {});
      result_.terms.back().input = static_cast<int>(at);
      return term;
    }
    const std::string offset =
        parameter ? offset_text(walk, "c") : element_text(view, result_.extent, result_.by_rows);
    const int term = full(view.type.dtype, text(offset), {});
    Term& added = result_.terms.back();
    added.input = static_cast<int>(at);
    added.is_parameter = parameter;
    added.offset = offset;
    added.unit = unit_of(walk);
    return term;
  }

  void add(NodeId id) {
    const Node& node = body_.node(id);
    const FusedRole role = role_of(node);
    int& result = values_[id][0];
    const TensorType& type = node.outputs[0];
    switch (role) {
      case FusedRole::kConstant:
        result = walked(type, number_text(node.attrs.number("value"), type.dtype), {});
        return;
      case FusedRole::kMove:
      // What is known once a row is known at each of its elements.
      case FusedRole::kSpread: result = operand(node.inputs[0]); return;
      case FusedRole::kFoldRow: {
        const char* const how = node.op->fold == Fold::kMax   ? "Max"
                                : node.op->fold == Fold::kMin ? "Min"
                                                              : "Sum";
        const Dtype from = body_.type(node.inputs[0]).dtype;
        const int folded = fold(from, how, operand(node.inputs[0]));
        result = once_a_row(type.dtype, fmt::format("as<{}>($0)", format_of(type.dtype)), {folded});
        return;
      }
      case FusedRole::kFoldColumns:
      case FusedRole::kFoldAll: {
        const bool all = role == FusedRole::kFoldAll;
        int term = operand(node.inputs[0]);
        if (node.op->fold == Fold::kSumSquares) {
          term = full(all ? Dtype::kF64 : body_.type(node.inputs[0]).dtype,
                      all ? "double($0) * double($0)" : "$0 * $0", {term});
        }
        sums_[{id, 0}] = {all ? Sink::Kind::kSumAll : Sink::Kind::kSumColumns, term};
        return;
      }
      case FusedRole::kMap: result = map(node); return;
      case FusedRole::kRow: add_row(id); return;
    }
  }

  int map(const Node& node) {
    using OpKind = ElementwiseOp::Kind;
    const ElementwiseOp& op = *elementwise_op(*node.op);
    const TensorType& type = node.outputs[0];
    std::vector<int> operands;
    std::string list;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      operands.push_back(operand(node.inputs[i]));
      // Numbers of type bool are computed with as integers.
      const bool numbers =
          body_.type(node.inputs[i]).dtype == Dtype::kBool && op.kind != OpKind::kCondition;
      list += fmt::format("{}{}${}{}", i == 0 ? "" : ", ", numbers ? "int64_t(" : "", i,
                          numbers ? ")" : "");
    }
    std::string value;
    switch (op.kind) {
      case OpKind::kSelection: value = "$0 ? $1 : $2"; break;
      case OpKind::kConversion: value = "$0"; break;
      default: value = fmt::format("scalar::{}({})", node.op->name, list);
    }
    return walked(type, fmt::format("as<{}>({})", format_of(type.dtype), value), operands);
  }

  void add_row(NodeId id);

  void finish() {
    for (const Sink& sink : result_.sinks) {
      result_.terms[static_cast<size_t>(sink.term)].needed = true;
    }
    auto& terms = result_.terms;
    for (size_t i = terms.size(); i-- > 0;) {
      if (!terms[i].needed) {
        continue;
      }
      // A fold reads its operand in the pass before it is known.
      const int pass = terms[i].level - (terms[i].kind == Kind::kFold ? 1 : 0);
      for (int operand : terms[i].operands) {
        Term& from = terms[static_cast<size_t>(operand)];
        from.needed = true;
        from.kept = from.kept || (from.kind == Kind::kFull && from.level < pass);
      }
      result_.levels = std::max(result_.levels, terms[i].level + 1);
    }
  }

  const Graph& body_;
  std::vector<bool> live_;
  std::vector<std::vector<int>> values_;  // terms by node and output
  std::map<std::pair<Value, bool>, int> loads_;
  std::map<Value, PendingSum> sums_;
  GroupTerms result_;
};

// The formulas of the CPU's loops (core/backends/cpu/vector/rows.cc).
void Builder::add_row(NodeId id) {
  const Node& node = body_.node(id);
  const std::string_view op = node.op->name;
  std::vector<int> in;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    in.push_back(operand(node.inputs[i], is_fused_parameter(*node.op, i)));
  }
  const Dtype wide = node.outputs[0].dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  const std::string t = held_by(wide);
  const auto sum = [&](int term) { return fold(wide, "Sum", term); };
  const auto each = [&](const char* expression, std::vector<int> operands) {
    return full(wide, expression, std::move(operands));
  };
  const auto row = [&](std::string expression, std::vector<int> operands) {
    return once_a_row(wide, std::move(expression), std::move(operands));
  };
  const auto result = [&](size_t i, int term) {
    const Dtype dtype = node.outputs[i].dtype;
    const std::string expression = fmt::format("as<{}>($0)", format_of(dtype));
    values_[id][i] =
        i == 0 ? full(dtype, expression, {term}) : once_a_row(dtype, expression, {term});
  };
  const auto sum_rows = [&](uint32_t i, int term) {
    sums_[{id, i}] = {Sink::Kind::kSumColumns, term};
  };
  const std::string n = fmt::format("{}({})", t, result_.extent.n);
  const std::string mean = "$0 / " + n;
  const std::string inverse_root = node.attrs.find("eps") == nullptr
                                       ? ""
                                       : fmt::format("{}(1) / std::sqrt($0 / {} + {})", t, n,
                                                     number_text(node.attrs.number("eps"), wide));
  if (op == "softmax" || op == "log_softmax") {
    const int top = fold(wide, "Max", in[0]);
    const int e = each("scalar::exp($0 - $1)", {in[0], top});
    const int total = sum(e);
    result(0, op == "softmax"
                  ? each("$0 * $1", {e, row(t + "(1) / $0", {total})})
                  : each("$0 - $1", {in[0], row("$0 + scalar::log($1)", {top, total})}));
  } else if (op == "softmax_grad") {
    const int dot = sum(each("$0 * $1", {in[0], in[1]}));
    result(0, each("$0 * ($1 - $2)", {in[0], in[1], dot}));
  } else if (op == "log_softmax_grad") {
    result(0, each("$1 - scalar::exp($0) * $2", {in[0], in[1], sum(in[1])}));
  } else if (op == "layer_norm") {
    const int m = row(mean, {sum(in[0])});
    const int r = row(inverse_root, {sum(each("($0 - $1) * ($0 - $1)", {in[0], m}))});
    result(0, each("($0 - $1) * $2 * $3 + $4", {in[0], m, r, in[1], in[2]}));
    result(1, m);
    result(2, r);
  } else if (op == "layer_norm_grad") {
    const int h = each("($0 - $1) * $2", {in[1], in[3], in[4]});
    const int u = each("$0 * $1", {in[0], in[2]});
    const int a = row(mean, {sum(u)});
    const int b = row(mean, {sum(each("$0 * $1", {u, h}))});
    result(0, each("$0 * ($1 - $2 - $3 * $4)", {in[4], u, a, h, b}));
    sum_rows(1, each("$0 * $1", {in[0], h}));
    sum_rows(2, in[0]);
  } else if (op == "rms_norm") {
    const int r = row(inverse_root, {sum(each("$0 * $0", {in[0]}))});
    result(0, each("$0 * $1 * $2", {in[0], r, in[1]}));
    result(1, r);
  } else {  // rms_norm_grad
    const int h = each("$0 * $1", {in[1], in[3]});
    const int u = each("$0 * $1", {in[0], in[2]});
    const int b = row(mean, {sum(each("$0 * $1", {u, h}))});
    result(0, each("$0 * ($1 - $2 * $3)", {in[3], u, h, b}));
    sum_rows(1, each("$0 * $1", {in[0], h}));
  }
}

bool is_known_row_op(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "softmax",    "log_softmax",     "softmax_grad", "log_softmax_grad",
      "layer_norm", "layer_norm_grad", "rms_norm",     "rms_norm_grad"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

}  // namespace

std::string held_by(Dtype dtype) {
  return dtype == Dtype::kF64    ? "double"
         : is_floating(dtype)    ? "float"
         : dtype == Dtype::kBool ? "bool"
                                 : "int64_t";
}

std::string format_of(Dtype dtype) {
  std::string name(name_of(dtype));
  if (dtype == Dtype::kBool) {
    return "Bool";
  }
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

bool GroupTerms::made_again(int i, int64_t pack) const {
  const Term& it = term(i);
  return it.kind == Kind::kFull && it.kept && !it.operands.empty() &&
         it.expression.find("::") == std::string::npos &&
         std::ranges::all_of(it.operands, [&](int operand) {
           return term(operand).lies_in(pack) || term(operand).kind != Kind::kFull;
         });
}

std::optional<GroupBody> group_body(const KernelRequest& request) {
  GroupBody result;
  if (&request.op == &fused_op()) {
    result.graph = request.attrs.graph("body");
    result.extent = {request.attrs.integer("rows"), request.attrs.integer("n")};
  } else {
    auto graph = std::make_shared<Graph>();
    std::vector<Value> inputs;
    Types in, out;
    for (const ViewType& view : request.inputs) {
      inputs.push_back(graph->add_input(view.type));
      in.push_back(view.type);
    }
    std::vector<Value> outputs;
    for (const ViewType& view : request.outputs) {
      out.push_back(view.type);
    }
    const NodeId node = graph->add(request.op, inputs, request.attrs, out);
    for (uint32_t i = 0; i < out.size(); ++i) {
      outputs.push_back({node, i});
    }
    graph->set_outputs(outputs);
    result.graph = graph;
    const auto extent = fused_extent(request.op, request.attrs, in, kLongestRow);
    result.extent = extent                                    ? *extent
                    : request.op.kind == OpKind::kElementwise ? FusedExtent{1, out[0].elements()}
                    : in.empty()                              ? FusedExtent{0, 0}
                                                              : FusedExtent{1, in[0].elements()};
  }
  const Graph& body = *result.graph;
  std::vector<Value> outputs = body.outputs();
  std::ranges::sort(outputs);
  if (result.extent.elements() == 0 || std::ranges::adjacent_find(outputs) != outputs.end() ||
      body.inputs().size() + outputs.size() > kMostOperands) {
    return std::nullopt;
  }
  const std::vector<bool> live = body.live();
  for (NodeId id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    if (!live[id] || node.op == &kInputOp) {
      continue;
    }
    const auto role = fused_role(*node.op, node.attrs, body.types(node.inputs), node.outputs,
                                 result.extent, kLongestRow);
    if (!role || (*role == FusedRole::kRow && !is_known_row_op(node.op->name))) {
      return std::nullopt;
    }
  }
  return result;
}

GroupTerms group_terms(const KernelRequest& request, const GroupBody& body) {
  return Builder(request, body).run();
}

}  // namespace mstrain::cuda
