// Passes from graph to graph. Each keeps the program's inputs and the values of its outputs.
#pragma once

#include <set>
#include <string>

#include "core/ir/backend.h"
#include "core/ir/tensor.h"
#include "core/runtime/context.h"
#include "core/tensor/jit.h"

namespace mstrain {

// Puts the bodies of recompute and custom_vjp in their place.
GraphPtr inline_programs(const Graph& graph);

// Removes what has no effect (identities, moves of moves, adding zero, multiplying by one).
GraphPtr simplify(const Graph& graph);

// Sums of scattered rows and something else start from the latter. Values agree to rounding.
GraphPtr sum_into_scatter(const Graph& graph);
// What it takes for a sum, and for one of its terms that is scattered.
bool is_sum(const Node& node);
bool scatters_into_sum(const Node& node);

class FusionLog;

// A way of fusing operations, to be switched off by name.
struct FusionRule {
  std::string_view name;
  std::string_view allows;
};
// All of them: of groups (core/compile/fuse.h) and of products.
std::vector<FusionRule> fusion_rules();

struct FuseOptions {
  std::set<std::string, std::less<>> off;  // rules that are not used
  FusionLog* log = nullptr;                // hears what was fused and what was not
  BackendLimits limits = {};               // of what the program is for
};

// Makes what alone reads a product one of its epilogues: a bias, a number that multiplies it, an activation, and the addition
// of a tensor that nothing else reads. Of types of 16 bits, where the limits say so, also an activation of what others read, too,
// and the derivative of one; elsewhere a bias alone.
GraphPtr fuse_products(const Graph& graph, const FuseOptions& options = {});

// Joins the updates of all parameters that share their scalars, where a clipping factor waits for all gradients anyway.
GraphPtr merge_updates(const Graph& graph, const FuseOptions& options = {});

// Puts elementwise operations, reductions and operations on rows into groups that run in one pass over memory.
GraphPtr fuse(const Graph& graph, const FuseOptions& options = {});

// Puts operations that `backend` has no kernel for through f32 where it has one for that (core/compile/widen.h), and
// decomposes composites otherwise.
GraphPtr lower(const Graph& graph, const Backend* backend);

// Writes linear_cross_entropy and its gradient as the operations that they consist of, wide ones in chunks of rows; see the
// file. `chunks` may be kAutoChunks, for which `limits` say how many.
GraphPtr chunk_loss(const Graph& graph, int64_t chunks, const BackendLimits& limits);

// What forward makes of at least `least` bytes, and backward reads, waits in the host's memory: stow() follows what makes it, and
// backward reads what fetch() brings. What backward reads first stays.
GraphPtr offload_saved(const Graph& graph, int64_t least);

struct OptimiseOptions {
  int level = 2;
  const Backend* backend = default_backend();
  FuseOptions fusion;  // whose limits become those of `backend`
  int64_t loss_chunks = kAutoChunks;
  std::optional<int64_t> offloaded_bytes = {};  // see CompileOptions
};

// The passes of an optimisation level, in order. Every result is verified in debug builds. Throws Error for a rule that
// does not exist.
GraphPtr optimise(const Graph& graph, const OptimiseOptions& options);

}  // namespace mstrain
