// The distinct ids of a batch, in the order of their first occurrence, and where each position's id is among them.
// Open addressing with look-ahead loads, emptied by counting up a round, which no map of a library offers; sorting would be ten times slower.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "embedding_cache/options.h"

namespace mstrain::embedding_cache {

struct Batch {
  std::vector<Id> unique;
  std::vector<uint32_t> inverse;  // per position: index into `unique`
};

// Keeps its table between batches. Not thread-safe.
class Dedup {
 public:
  // At most 2^31 ids. Reuses the memory of `out`.
  void run(std::span<const Id> ids, Batch& out);

 private:
  struct Cell {
    Id id;
    uint32_t index;
    uint32_t round;  // the batch that wrote the cell; cells of others count as empty
  };
  void grow(const Batch& batch);

  std::vector<Cell> cells_;
  uint64_t mask_ = 0;
  uint32_t round_ = 0;
};

// Positions of each distinct id in ascending order: those of id u are order[begin[u] .. begin[u + 1]).
struct Positions {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> order;
};
Positions positions_by_id(const Batch& batch);

}  // namespace mstrain::embedding_cache
