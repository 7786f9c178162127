// Programs as pictures: text for Graphviz (`dot -Tsvg`).
#pragma once

#include "core/ir/graph.h"

namespace mstrain {

// Live nodes with their attributes; edges carry types; programs in attributes are boxes of their
// own.
std::string to_dot(const Graph& graph);

}  // namespace mstrain
