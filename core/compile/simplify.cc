#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/dot_general.h"

namespace mstrain {
namespace {

bool is_constant(const Tensor& x, double value) { return constant_value(x) == value; }

// Whether the node's operation on `operand` would give it back as it lies.
bool changes_nothing(const Node& node, const Attrs& attrs, const Tensor& operand) {
  if (node.op->kind == OpKind::kControl || node.op->alias == nullptr || node.inputs.size() != 1 ||
      node.outputs.size() != 1 || node.outputs[0] != operand.type()) {
    return false;
  }
  const ViewType x = ViewType::dense(operand.type());
  const auto alias = node.op->alias(attrs, std::span(&x, 1), 0);
  return alias && alias->offset == 0 && ViewType{x.type, alias->strides}.contiguous();
}

// x + 0, x * 1 and the like.
std::optional<Tensors> without_neutral(const RewriteNode& it) {
  const Neutral& neutral = it.node.op->neutral;
  for (size_t i = 0; i < 2; ++i) {
    if (((neutral.inputs >> i) & 1U) != 0 && is_constant(it.inputs[i], neutral.value)) {
      return Tensors{it.inputs[1 - i]};
    }
  }
  return std::nullopt;
}

// Two moves of a kind are one.
std::optional<Tensors> composed(const RewriteNode& it) {
  const Node* before = producer(it.inputs[0]);
  if (before == nullptr || before->op != it.node.op) {
    return std::nullopt;
  }
  const Tensors origin = inputs_of(it.inputs[0]);
  const Attrs attrs = it.node.op->compose(before->attrs, it.node.attrs);
  return changes_nothing(it.node, attrs, origin[0])
             ? origin
             : apply(*it.node.op, origin, attrs, it.node.where);
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
  return rewrite(graph, [&](const RewriteNode& it) -> std::optional<Tensors> {
    if (it.inputs.size() == 1 && changes_nothing(it.node, it.node.attrs, it.inputs[0])) {
      return Tensors{it.inputs[0]};
    }
    if (it.node.op->neutral.inputs != 0) {
      return without_neutral(it);
    }
    if (it.node.op->compose != nullptr) {
      return composed(it);
    }
    return it.node.op == &kDotGeneral ? simplify_product(it) : std::nullopt;
  });
}

}  // namespace mstrain
