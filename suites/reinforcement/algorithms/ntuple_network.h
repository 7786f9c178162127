// The value of a board as a sum of entries of tables (n-tuple networks: Bledsoe, Browning 1959; for 2048 Szubert, Jaskowski 2014): what
// stands on a tuple of cells is the number of an entry of the tuple's table, and every symmetry of the board looks once more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor/params.h"

namespace mstrain::reinforcement {

class NTupleNetwork {
 public:
  using Tuple = std::vector<int64_t>;  // cells
  // moved[k][c]: the cell that cell c is in symmetry k. Cells hold symbols below `symbols`.
  NTupleNetwork(const std::vector<Tuple>& tuples, int64_t symbols,
                const std::vector<std::vector<uint8_t>>& moved);

  size_t tables() const { return sizes_.size(); }
  size_t symmetries() const { return symmetries_; }
  // Of a board: each table's for every symmetry, one table after another.
  size_t lookups() const { return tables() * symmetries_; }
  // A table for each tuple, "tables.0" and so on, zeros at first.
  std::vector<ParamSpec> specs() const;

  // The numbers [lookups] of a board's entries.
  void entries(std::span<const uint8_t> cells, std::span<uint32_t> out) const;
  // Their sum. tables: of specs().
  float value(std::span<float* const> tables, std::span<const uint32_t> entries) const;

 private:
  std::vector<int64_t> sizes_;  // of each table
  size_t symmetries_;
  uint32_t symbols_;
  std::vector<uint8_t> places_;  // cells, lookup by lookup
  std::vector<size_t> lengths_;  // of each tuple
};

// Where tables are, as long as they are held.
std::vector<float*> memory_of(const Params& tables);

// Boards' entries in one table and how wrong their values were, those of an entry together.
class TableHits {
 public:
  struct Hit {
    uint32_t entry;
    uint32_t count;
    float error;  // of all, summed in the order in which they came
  };
  // For `most` calls of add() between two of clear().
  explicit TableHits(size_t most);

  void clear();
  void add(uint32_t entry, float error);
  std::span<const Hit> all() const { return hits_; }

 private:
  std::vector<Hit> hits_;
  std::vector<uint32_t> slots_;  // a hash table: 1 + the hit's place, 0: free
  int shift_;
};

// A table that learns, each entry with a step size of its own: its errors' sum by the sum of their magnitudes (temporal
// coherence: Beal, Smith 1999), which falls where they cancel.
struct CoherentTable {
  float* values;
  float* errors;      // sums
  float* magnitudes;  // sums

  // Every entry that was hit moves by `rate` and its own step size, of an error that is the mean of its hits.
  void learn(const TableHits& hits, float rate) const;
};

}  // namespace mstrain::reinforcement
