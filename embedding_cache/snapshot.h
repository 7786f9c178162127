// The changed rows of a commit that is written while training goes on: where they are in host memory, and copies of those that have changed
// or left since. Guarded by the owner's mutex, but for rows(), which do not change once sorted.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "embedding_cache/host_slots.h"
#include "embedding_cache/id_map.h"

namespace mstrain::embedding_cache {

class Snapshot {
 public:
  struct Row {
    uint32_t table;
    Slot slot;
    Id id;
  };

  explicit Snapshot(std::vector<uint32_t> record_bytes);  // by table
  void add(const Row& row) { rows_.push_back(row); }
  void sort();  // by table and id
  std::span<const Row> rows() const { return rows_; }

  // Keeps the record of one of the rows as it is now, before it changes or leaves; once for each.
  void save(uint32_t table, Id id, const std::byte* record);
  const std::byte* find(uint32_t table, Id id) const;  // what was saved, or null
  template <class F>
  void each_saved(uint32_t table, F&& visit) const {
    const Saved& saved = saved_[table];
    saved.numbers.each([&](Id id, uint64_t number) { visit(id, saved.record(number)); });
  }
  void forget_saved();

 private:
  struct Saved {
    uint32_t record_bytes = 0;
    IdMap numbers;
    std::vector<std::unique_ptr<std::byte[]>> chunks;
    std::byte* record(uint64_t number) const;
  };
  std::vector<Row> rows_;
  std::vector<Saved> saved_;  // by table
};

}  // namespace mstrain::embedding_cache
