// scatter + other, where nobody else reads the scatter: x[ids] += updates starts from the other term. Where x is zero that
// term is the base; else base and term meet first, so that sums over micro-batches, and the gradients of a matrix that is
// read both by ids and by a product, run into one place.
#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/elementwise.h"

namespace mstrain {

bool is_sum(const Node& node) { return node.op->name == "add"; }
bool scatters_into_sum(const Node& node) { return node.op->name == "scatter_add"; }

GraphPtr sum_into_scatter(const Graph& graph) {
  const std::vector<std::vector<int>> uses = uses_of(graph);
  return rewrite(graph, [&](const RewriteNode& it) -> std::optional<Tensors> {
    if (!is_sum(it.node)) {
      return std::nullopt;
    }
    // Of two scatters the one onto zeros first: the other keeps its base, as where another rank forms it.
    for (const bool onto_zeros : {true, false}) {
      for (size_t i = 0; i < 2; ++i) {
        const Node* node = producer(it.inputs[i]);
        if (node == nullptr || !scatters_into_sum(*node)) {
          continue;
        }
        const Tensors inputs = inputs_of(it.inputs[i]);
        const bool zero = constant_value(inputs[0]) == 0.0;
        const Value& value = it.node.inputs[i];
        if (zero == onto_zeros && (zero || uses[value.node][value.output] == 1)) {
          const Tensor& other = it.inputs[1 - i];
          const Tensor base = zero ? other : add(other, inputs[0]);
          return apply(*node->op, Tensors{base, inputs[1], inputs[2]}, node->attrs, it.node.where);
        }
      }
    }
    return std::nullopt;
  });
}

}  // namespace mstrain
