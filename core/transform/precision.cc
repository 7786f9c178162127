#include "core/transform/precision.h"

#include <algorithm>

#include "core/ops/accumulation.h"
#include "core/ops/elementwise.h"

namespace mstrain {
namespace {

class PrecisionReplay {
 public:
  PrecisionReplay(const Graph& graph, Dtype dtype)
      : graph_(graph), dtype_(dtype), results_(graph.size()), constant_(graph.size(), false) {}

  Tensors run(std::span<const Tensor> inputs) {
    check(inputs.size() == graph_.inputs().size(), "a program of {} inputs was given {}",
          graph_.inputs().size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      results_[graph_.inputs()[i].node] = {inputs[i]};
    }
    const std::vector<bool> live = graph_.live();
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (live[id] && graph_.node(id).op != &kInputOp) {
        const PlaceScope place = PlaceScope::again(graph_.node(id).place);
        apply_node(id);
      }
    }
    Tensors outputs;
    for (const Value& value : graph_.outputs()) {
      outputs.push_back(at(value));
    }
    return outputs;
  }

 private:
  const Tensor& at(const Value& value) const { return results_[value.node][value.output]; }

  // Whether nothing but numbers of the program go into it: it follows the types of what it meets.
  bool is_constant(const Node& node) const {
    const bool follows =
        node.op->kind == OpKind::kMovement || node.op->kind == OpKind::kElementwise;
    return node.op->repeats_number ||
           (follows && !node.inputs.empty() &&
            std::all_of(node.inputs.begin(), node.inputs.end(),
                        [&](const Value& value) { return constant_[value.node]; }));
  }

  // A constant in another dtype: made again where it only repeats a number.
  Tensor converted(const Value& value, Dtype dtype) const {
    const Node& node = graph_.node(value.node);
    if (constant_[value.node] && node.op->repeats_number) {
      return apply(*node.op, {}, node.attrs.with("dtype", dtype), node.where)[0];
    }
    if (constant_[value.node] && node.op->kind == OpKind::kMovement && node.inputs.size() == 1) {
      const Tensor inner = converted(node.inputs[0], dtype);
      return apply(*node.op, std::span(&inner, 1), node.attrs, node.where)[value.output];
    }
    return cast(at(value), dtype);
  }

  // Operands that were written as f32, all in `dtype`.
  Tensors operands_in(const Node& node, Dtype dtype) const {
    Tensors operands;
    for (const Value& value : node.inputs) {
      const bool converts = graph_.type(value).dtype == Dtype::kF32 && at(value).dtype() != dtype;
      operands.push_back(converts ? converted(value, dtype) : at(value));
    }
    return operands;
  }

  // In which dtype operands meet: 16 bits only where none is wider.
  Dtype common_dtype(const Node& node) const {
    bool any_short = false;
    bool any_wide = false;
    for (const Value& value : node.inputs) {
      if (graph_.type(value).dtype == Dtype::kF32 && !constant_[value.node]) {
        any_short = any_short || is_short(at(value).dtype());
        any_wide = any_wide || !is_short(at(value).dtype());
      }
    }
    return any_short && !any_wide ? dtype_ : Dtype::kF32;
  }

  // Whether a constant keeps its value in 16 bits.
  bool is_exact(const Value& value) const {
    const Node& node = graph_.node(value.node);
    if (node.op->repeats_number) {
      const auto number = static_cast<float>(node.attrs.number("value"));
      return (dtype_ == Dtype::kBF16 ? static_cast<float>(BFloat16(number))
                                     : static_cast<float>(Float16(number))) == number;
    }
    return node.op->kind == OpKind::kMovement && is_exact(node.inputs[0]);
  }

  // An operation of 16-bit operands and a constant that would be rounded on its own, such as x / 3: it is computed in f32,
  // and its result is rounded instead.
  bool meets_inexact_constant(const Node& node) const {
    return node.op->kind == OpKind::kElementwise &&
           std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Value& value) {
             return constant_[value.node] && graph_.type(value).dtype == Dtype::kF32 &&
                    !is_exact(value);
           });
  }

  // The dtype of the node's operands.
  Dtype operand_dtype(NodeId id) const {
    const Node& node = graph_.node(id);
    if (constant_[id]) {
      return Dtype::kF32;
    }
    switch (node.op->precision) {
      case Precision::kNarrow: return dtype_;
      case Precision::kWide:
      case Precision::kAsWritten: return Dtype::kF32;
      default: return common_dtype(node);
    }
  }

  void apply_node(NodeId id) {
    const Node& node = graph_.node(id);
    constant_[id] = is_constant(node);
    if (node.op->precision == Precision::kInside) {
      results_[id] = recomputed(node);
      return;
    }
    if (node.op->precision == Precision::kAny) {
      results_[id] = apply(*node.op, operands_of(node), node.attrs, node.where);
      return;
    }
    const Dtype dtype = operand_dtype(id);
    const bool rounds_result = is_short(dtype) && meets_inexact_constant(node);
    const Tensors operands = operands_in(node, rounds_result ? Dtype::kF32 : dtype);
    results_[id] = apply(*node.op, operands, node.attrs, node.where);
    for (Tensor& result : results_[id]) {
      result = rounds_result && result.dtype() == Dtype::kF32 ? cast(result, dtype) : result;
    }
  }

  Tensors operands_of(const Node& node) const {
    Tensors operands;
    for (const Value& value : node.inputs) {
      operands.push_back(at(value));
    }
    return operands;
  }

  Tensors recomputed(const Node& node) const {
    const Tensors operands = operands_of(node);
    const Graph& body = *node.attrs.graph("body");
    Tensors none;
    const GraphPtr inner = trace_program(
        types_of(operands),
        [&](std::span<const Tensor> in) { return PrecisionReplay(body, dtype_).run(in); }, &none);
    check(none.empty(), "a body uses {} tensors from outside", none.size());
    return apply(*node.op, operands, node.attrs.with("body", inner), node.where);
  }

  const Graph& graph_;
  Dtype dtype_;
  std::vector<Tensors> results_;
  std::vector<bool> constant_;
};

}  // namespace

Types written_types(std::span<const Tensor> leaves) {
  Types types;
  for (const Tensor& leaf : leaves) {
    types.push_back(leaf.type());
    if (is_short(types.back().dtype)) {
      types.back().dtype = Dtype::kF32;
    }
  }
  return types;
}

Tensors run_in_precision(const Graph& program, std::span<const Tensor> inputs, Dtype dtype) {
  check(is_short(dtype), "in_precision: {} is neither bf16 nor f16", name_of(dtype));
  Tensors outputs = PrecisionReplay(program, dtype).run(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = cast(outputs[i], program.type(program.outputs()[i]).dtype);
  }
  return outputs;
}

}  // namespace mstrain
