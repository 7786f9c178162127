#include <algorithm>

#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

using Uses = std::vector<std::vector<int>>;

// The number that every element of `x` is, where it is a (broadcast) constant.
std::optional<double> constant_value(const Tensor& x) {
  const Node* node = producer(x);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (node->op->name == "full") {
    return node->attrs.number("value");
  }
  if (node->op->name == "broadcast" || node->op->name == "reshape") {
    return constant_value(inputs_of(x)[0]);
  }
  return std::nullopt;
}

bool is_constant(const Tensor& x, double value) { return constant_value(x) == value; }

// scatter + other, where nobody else reads the scatter: x[ids] += updates starts from the other term. Where x is zero
// that term is the base; else base and term meet first, so that sums over micro-batches, and the gradients of a matrix
// that is read both by ids and by a product, run into one place.
std::optional<Tensors> into_scatter(const RewriteNode& it, const Uses& uses, size_t i) {
  const Tensor& scatter = it.inputs[i];
  const Tensor& other = it.inputs[1 - i];
  const Node* node = producer(scatter);
  if (node == nullptr || node->op->name != "scatter_add") {
    return std::nullopt;
  }
  const Tensors inputs = inputs_of(scatter);
  const bool zero = is_constant(inputs[0], 0);
  const Value& value = it.node.inputs[i];
  if (!zero && uses[value.node][value.output] != 1) {
    return std::nullopt;
  }
  const Tensor base = zero ? other : add(other, inputs[0]);
  return apply(*node->op, std::vector<Tensor>{base, inputs[1], inputs[2]}, node->attrs,
               it.node.where);
}

std::optional<Tensors> simplify_elementwise(const RewriteNode& it, const Uses& uses) {
  const std::string_view name = it.node.op->name;
  const auto x = it.inputs;
  if (name == "identity" || name == "stop_gradient") {
    return Tensors{x[0]};
  }
  if (name == "cast" && x[0].dtype() == it.node.attrs.dtype("dtype")) {
    return Tensors{x[0]};
  }
  if (name == "add") {
    if (is_constant(x[0], 0)) {
      return Tensors{x[1]};
    }
    if (is_constant(x[1], 0)) {
      return Tensors{x[0]};
    }
    auto scattered = into_scatter(it, uses, 0);
    return scattered ? scattered : into_scatter(it, uses, 1);
  }
  if ((name == "sub" && is_constant(x[1], 0)) ||
      ((name == "mul" || name == "div") && is_constant(x[1], 1))) {
    return Tensors{x[0]};
  }
  if (name == "mul" && is_constant(x[0], 1)) {
    return Tensors{x[1]};
  }
  return std::nullopt;
}

std::optional<Tensors> simplify_movement(const RewriteNode& it) {
  const std::string_view name = it.node.op->name;
  const Tensor& x = it.inputs[0];
  const Node* before = producer(x);
  const bool same_type = it.node.outputs.size() == 1 && it.node.outputs[0] == x.type();
  if (same_type && (name == "reshape" || name == "broadcast" || name == "concat")) {
    return Tensors{x};
  }
  if (before == nullptr || before->op->name != name) {
    return std::nullopt;
  }
  const Tensor origin = inputs_of(x)[0];
  if (name == "reshape") {
    return Tensors{reshape(origin, it.node.attrs.ints("shape"))};
  }
  if (name == "broadcast") {
    return Tensors{broadcast_to(origin, it.node.attrs.ints("shape"))};
  }
  if (name == "transpose") {
    const Shape& first = before->attrs.ints("axes");
    Shape axes;
    for (int64_t axis : it.node.attrs.ints("axes")) {
      axes.push_back(first[static_cast<int>(axis)]);
    }
    return Tensors{transpose(origin, axes)};
  }
  return std::nullopt;
}

// A product with a transposed matrix is a product that reads it the other way round.
std::optional<Tensors> simplify_matmul(const RewriteNode& it) {
  Tensors inputs(it.inputs.begin(), it.inputs.end());
  Attrs attrs = it.node.attrs;
  bool changed = false;
  for (const auto& [i, flag] : {std::pair{0, "transpose_a"}, {1, "transpose_b"}}) {
    const Node* before = producer(inputs[static_cast<size_t>(i)]);
    if (before == nullptr || before->op->name != "transpose") {
      continue;
    }
    const Shape& axes = before->attrs.ints("axes");
    const int rank = axes.rank();
    bool swaps_last = rank >= 2 && axes[rank - 1] == rank - 2 && axes[rank - 2] == rank - 1;
    for (int d = 0; d < rank - 2; ++d) {
      swaps_last = swaps_last && axes[d] == d;
    }
    if (swaps_last) {
      inputs[static_cast<size_t>(i)] = inputs_of(inputs[static_cast<size_t>(i)])[0];
      attrs.set(flag, !attrs.flag(flag));
      changed = true;
    }
  }
  return changed ? std::optional(apply(*it.node.op, inputs, attrs, it.node.where)) : std::nullopt;
}

}  // namespace

GraphPtr simplify(const Graph& graph) {
  const Uses uses = uses_of(graph);
  return rewrite(graph, [&](const RewriteNode& it) -> std::optional<Tensors> {
    switch (it.node.op->kind) {
      case OpKind::kElementwise: return simplify_elementwise(it, uses);
      case OpKind::kMovement: return simplify_movement(it);
      case OpKind::kContract:
        return it.node.op->name == "matmul" ? simplify_matmul(it) : std::nullopt;
      default: return std::nullopt;
    }
  });
}

}  // namespace mstrain
