#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/matmul.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// How often each value is read, outputs included.
std::vector<std::vector<int>> count_uses(const Graph& graph) {
  std::vector<std::vector<int>> uses(graph.size());
  const std::vector<bool> live = graph.live();
  for (NodeId id = 0; id < graph.size(); ++id) {
    uses[id].resize(graph.node(id).outputs.size());
    for (const Value& value : graph.node(id).inputs) {
      uses[value.node][value.output] += live[id] ? 1 : 0;
    }
  }
  for (const Value& value : graph.outputs()) {
    ++uses[value.node][value.output];
  }
  return uses;
}

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

}  // namespace

GraphPtr fuse_bias(const Graph& graph) {
  const std::vector<std::vector<int>> uses = count_uses(graph);
  const auto used_once = [&](const Value& value) { return uses[value.node][value.output] == 1; };
  return rewrite(graph, [&](const RewriteNode& it) -> std::optional<Tensors> {
    if (it.node.op->name != "add") {
      return std::nullopt;
    }
    for (size_t i = 0; i < 2; ++i) {
      // add(reshape*(matmul), broadcast(bias))
      Tensor product = it.inputs[i];
      Value value = it.node.inputs[i];
      bool private_chain = used_once(value);
      const Node* node = producer(product);
      while (node != nullptr && node->op->name == "reshape" && private_chain &&
             graph.node(value.node).op->name == "reshape") {
        product = inputs_of(product)[0];
        value = graph.node(value.node).inputs[0];
        private_chain = used_once(value);
        node = producer(product);
      }
      if (node == nullptr || node->op->name != "matmul" || !private_chain || product.rank() != 2) {
        continue;
      }
      const Tensor bias = as_row_vector(it.inputs[1 - i], product.dim(1));
      if (!bias) {
        continue;
      }
      const Tensors ab = inputs_of(product);
      const Tensor joined = apply1(kMatmulBias, {ab[0], ab[1], bias}, node->attrs, node->where);
      return Tensors{reshape(joined, it.node.outputs[0].shape)};
    }
    return std::nullopt;
  });
}

}  // namespace mstrain
