#include "core/compile/passes.h"
#include "core/compile/rewrite.h"

namespace mstrain {

GraphPtr inline_programs(const Graph& graph) {
  return rewrite(graph, [](const RewriteNode& it) -> std::optional<Tensors> {
    if (it.node.op->name == "checkpoint") {
      return replay(*inline_programs(*it.node.attrs.graph("body")), it.inputs);
    }
    if (it.node.op->name == "custom_vjp") {
      return replay(*inline_programs(*it.node.attrs.graph("forward")), it.inputs);
    }
    return std::nullopt;
  });
}

}  // namespace mstrain
