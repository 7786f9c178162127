#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/matmul.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// The vector of `size` that a value repeats over all but its last dims; empty where it does not. A bias of logical dims
// [h, d] added to [b, t, h, d] is a vector of h·d.
Tensor as_row_vector(const Tensor& x, int64_t size) {
  const Node* node = producer(x);
  if (node == nullptr || node->op->name != "broadcast") {
    return {};
  }
  const Tensor origin = inputs_of(x)[0];
  if (origin.elements() != size) {
    return {};
  }
  int64_t trailing = 1;
  for (int i = 1; i <= origin.rank(); ++i) {
    if (origin.dim(-i) != x.dim(-i) && trailing != size) {
      return {};
    }
    trailing *= origin.dim(-i);
  }
  return reshape(origin, {size});
}

class ProductFuser {
 public:
  explicit ProductFuser(const Graph& graph) : graph_(graph), uses_(uses_of(graph)) {}

  // add(reshape*(matmul), broadcast(bias))
  std::optional<Tensors> bias(const RewriteNode& it) const {
    return it.node.op->name == "add" ? either(it, &ProductFuser::with_bias) : std::nullopt;
  }
  // add(reshape*(matmul or matmul_bias), c)
  std::optional<Tensors> addend(const RewriteNode& it) const {
    return it.node.op->name == "add" ? either(it, &ProductFuser::with_addend) : std::nullopt;
  }

  // activation(reshape*(matmul_bias))
  std::optional<Tensors> activation(const RewriteNode& it) const {
    const auto* known =
        std::find(std::begin(kProductActivations), std::end(kProductActivations), it.node.op->name);
    const Tensor product =
        known == std::end(kProductActivations) ? Tensor() : product_behind(it, 0);
    if (!product || producer(product)->op->name != "matmul_bias" ||
        product.dtype() != Dtype::kF32) {
      return std::nullopt;
    }
    const Node& node = *producer(product);
    const Tensor joined = apply(kMatmulBiasActivation, inputs_of(product),
                                node.attrs.with("activation", std::string(*known)), node.where)[0];
    return Tensors{reshape(joined, it.node.outputs[0].shape)};
  }

 private:
  bool used_once(const Value& value) const { return uses_[value.node][value.output] == 1; }

  // The private product behind operand `i`; empty where there is none.
  Tensor product_behind(const RewriteNode& it, size_t i) const {
    Tensor product = it.inputs[i];
    Value value = it.node.inputs[i];
    const Node* node = producer(product);
    while (node != nullptr && node->op->name == "reshape" && used_once(value) &&
           graph_.node(value.node).op->name == "reshape") {
      product = inputs_of(product)[0];
      value = graph_.node(value.node).inputs[0];
      node = producer(product);
    }
    return node != nullptr && used_once(value) && product.rank() == 2 ? product : Tensor();
  }

  // The later operand first: the other one exists when the product runs.
  std::optional<Tensors> either(const RewriteNode& it,
                                std::optional<Tensors> (ProductFuser::*join)(const RewriteNode&,
                                                                             size_t) const) const {
    const size_t later = it.node.inputs[0].node > it.node.inputs[1].node ? 0 : 1;
    auto joined = (this->*join)(it, later);
    return joined ? joined : (this->*join)(it, 1 - later);
  }

  static std::optional<Tensors> join(const RewriteNode& it, const OpDef& op, const Tensor& product,
                                     const Tensor& term) {
    const Node& node = *producer(product);
    const NameScope scope = NameScope::absolute(node.scope);  // where most of the time goes
    Tensors inputs = inputs_of(product);
    inputs.push_back(term);
    const Tensor joined = apply(op, inputs, node.attrs, node.where)[0];
    return Tensors{reshape(joined, it.node.outputs[0].shape)};
  }

  std::optional<Tensors> with_bias(const RewriteNode& it, size_t i) const {
    const Tensor product = product_behind(it, i);
    if (!product || producer(product)->op->name != "matmul") {
      return std::nullopt;
    }
    const Tensor bias = as_row_vector(it.inputs[1 - i], product.dim(1));
    return bias ? join(it, kMatmulBias, product, bias) : std::nullopt;
  }

  std::optional<Tensors> with_addend(const RewriteNode& it, size_t i) const {
    const Tensor product = product_behind(it, i);
    const std::string_view name = product ? producer(product)->op->name : "";
    if ((name != "matmul" && name != "matmul_bias") || product.dtype() != Dtype::kF32) {
      return std::nullopt;
    }
    // What is read again cannot become the sum; copying it costs what the addition did.
    Value addend = it.node.inputs[1 - i];
    while (used_once(addend) && graph_.node(addend.node).op->name == "reshape") {
      addend = graph_.node(addend.node).inputs[0];
    }
    if (!used_once(addend)) {
      return std::nullopt;
    }
    return join(it, name == "matmul" ? kMatmulAdd : kMatmulBiasAdd, product,
                reshape(it.inputs[1 - i], product.shape()));
  }

  const Graph& graph_;
  std::vector<std::vector<int>> uses_;
};

}  // namespace

GraphPtr fuse_products(const Graph& graph, const FuseOptions& options) {
  const auto applied = [&](std::string_view rule, const Graph& to,
                           std::optional<Tensors> (ProductFuser::*join)(const RewriteNode&) const) {
    const ProductFuser fuser(to);
    return rewrite(to, [&](const RewriteNode& it) {
      return options.off.contains(rule) ? std::nullopt : (fuser.*join)(it);
    });
  };
  const GraphPtr biased = applied("bias", graph, &ProductFuser::bias);
  const GraphPtr activated = applied("activation", *biased, &ProductFuser::activation);
  return applied("addend", *activated, &ProductFuser::addend);
}

}  // namespace mstrain
