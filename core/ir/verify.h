// What must hold in every program, checked after each pass.
#pragma once

#include "core/ir/graph.h"

namespace mstrain {

// Throws Error naming the first node that breaks a rule: its inputs precede it and exist; its types
// are what its operation infers from theirs; inputs are listed once, in order, with their types;
// outputs exist; programs in its attributes are valid themselves. `after` names the pass that made
// the program.
void verify(const Graph& graph, std::string_view after = {});

}  // namespace mstrain
