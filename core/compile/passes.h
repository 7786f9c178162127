// Passes from graph to graph. Each keeps the program's inputs and the values of its outputs.
#pragma once

#include "core/ir/tensor.h"
#include "core/runtime/context.h"

namespace mstrain {

// Puts the bodies of checkpoint and custom_vjp in their place.
GraphPtr inline_programs(const Graph& graph);

// Removes what has no effect (identities, moves of moves, adding zero, multiplying by one) and shortens what is said in
// two steps (sums of scattered rows). Values agree to rounding.
GraphPtr simplify(const Graph& graph);

// Joins a product with the bias and the tensor added to it: matmul_bias, matmul_add, matmul_bias_add.
GraphPtr fuse_products(const Graph& graph);

// Decomposes composites that `backend` has no kernel for.
GraphPtr lower(const Graph& graph, Backend backend);

// The passes of an optimisation level, in order. Every result is verified in debug builds.
GraphPtr optimise(const Graph& graph, int level, Backend backend);

}  // namespace mstrain
