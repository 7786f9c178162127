// The order in which a program's nodes run.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace mstrain {

// Live nodes without inputs of the program and constants, each after what it reads: the order of the graph, except that
// a node runs as soon as it can where that needs no more memory than it sets free. Gradients are so added to running
// sums, and parameters updated, when they are made instead of at the end. `donated[i]`: the memory of input i may be
// written.
std::vector<NodeId> schedule(const Graph& graph, const std::vector<bool>& donated);

}  // namespace mstrain
