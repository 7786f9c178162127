#include <algorithm>

#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/dot_general.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

using Uses = std::vector<std::vector<int>>;

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

// A product of a transposed tensor is a product of that tensor with its dims named in another order.
std::optional<Tensors> simplify_product(const RewriteNode& it) {
  Tensors inputs(it.inputs.begin(), it.inputs.end());
  DotDims dims = dot_dims(it.node.attrs);
  bool changed = false;
  for (const auto& [i, letters] : {std::pair{size_t{0}, &dims.a}, {size_t{1}, &dims.b}}) {
    const Node* before = producer(inputs[i]);
    if (before == nullptr || before->op->name != "transpose") {
      continue;
    }
    const Shape& axes = before->attrs.ints("axes");
    const std::string seen = *letters;
    for (int d = 0; d < axes.rank(); ++d) {
      (*letters)[static_cast<size_t>(axes[d])] = seen[static_cast<size_t>(d)];
    }
    inputs[i] = inputs_of(inputs[i])[0];
    changed = true;
  }
  return changed ? std::optional(apply(*it.node.op, inputs,
                                       it.node.attrs.with("dims", to_text(dims)), it.node.where))
                 : std::nullopt;
}

}  // namespace

GraphPtr simplify(const Graph& graph) {
  const Uses uses = uses_of(graph);
  return rewrite(graph, [&](const RewriteNode& it) -> std::optional<Tensors> {
    switch (it.node.op->kind) {
      case OpKind::kElementwise: return simplify_elementwise(it, uses);
      case OpKind::kMovement: return simplify_movement(it);
      case OpKind::kContract:
        return it.node.op == &kDotGeneral ? simplify_product(it) : std::nullopt;
      default: return std::nullopt;
    }
  });
}

}  // namespace mstrain
