#include "core/compile/passes.h"

namespace mstrain {

GraphPtr optimise(const Graph& graph, int level, Backend backend) {
  GraphPtr result = inline_programs(graph);
  if (level >= 1) {
    result = simplify(*result);
    result = simplify(*result);  // moves that the first round brought together
    if (level >= 2) {
      result = fuse_bias(*result);
    }
  }
  return lower(*result, backend);
}

}  // namespace mstrain
