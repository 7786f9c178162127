// Parameters that ranks have in parts are put together once more where the backward pass reads them, so that no more of them are
// whole at once than a layer needs.
#pragma once

#include "core/ir/graph.h"

namespace mstrain {

// `graph`, in which the backward pass makes anew what collectives make of inputs of the program alone, and larger than these.
GraphPtr regathered(const Graph& graph);

}  // namespace mstrain
