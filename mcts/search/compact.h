// Taking away what a tree no longer needs, in place: no second arena, no memory but a stack as deep as the tree is wide.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "mcts/search/arena.h"
#include "mcts/search/block.h"

namespace mstrain::mcts {

// Keeps the tree below block `root`, without blocks whose edge has fewer than `min_visits` visits, and slides it to the
// bottom of the arena. Returns the new index of `root`. No descent may be under way. `exact` receives the old and the new
// index of every block kept that has kExactFlag, in ascending order.
uint32_t compact(Arena& arena, const BlockFormat& format, uint32_t root, uint32_t min_visits,
                 std::vector<std::pair<uint32_t, uint32_t>>& exact);

// The smallest number of visits such that keeping only blocks with as many frees at least half of the bytes in use.
uint32_t pruning_threshold(const Arena& arena, const BlockFormat& format, uint32_t root);

// Number of edges below block `root`.
uint64_t count_edges(const Arena& arena, uint32_t root);

}  // namespace mstrain::mcts
