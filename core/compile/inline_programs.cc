#include "core/compile/passes.h"
#include "core/compile/rewrite.h"

namespace mstrain {

GraphPtr inline_programs(const Graph& graph) {
  return rewrite(graph, [](const RewriteNode& it) -> std::optional<Tensors> {
    const std::string_view program = it.node.op->inlined;
    return program.empty()
               ? std::nullopt
               : std::optional(replay(*inline_programs(*it.node.attrs.graph(program)), it.inputs));
  });
}

}  // namespace mstrain
