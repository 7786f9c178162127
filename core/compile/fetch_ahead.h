// What lies in the host's memory comes back ahead of its use (core/ops/offload.h).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/ir/backend.h"
#include "core/ir/graph.h"

namespace mstrain {

// Whether what programs for it stow() lies in the host's memory: of a device with memory of its own that has a kernel for that.
bool has_host_memory(const Backend* backend);

// The most bytes that may be on their way in one direction: what one node reads at most of what fetch() brings. Updates, which
// read the most, and all other nodes have limits of their own.
struct AheadBytes {
  std::array<int64_t, 2> bytes{};
  int64_t& of(bool updates) { return bytes[updates ? 1 : 0]; }
};
// `order`: of the live nodes.
AheadBytes most_fetched(const Graph& graph, std::span<const NodeId> order);

// `order`, in which each fetch() stands before its first reader, with each as early as that limit allows: before an earlier node
// reads what another one brings.
std::vector<NodeId> fetched_ahead(const Graph& graph, std::vector<NodeId> order);

}  // namespace mstrain
