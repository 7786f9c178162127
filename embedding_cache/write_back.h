// Rows on their way from the host tier to the store. A row that is wanted again before its write has ended is found here, so that no one
// ever reads what the store does not have yet. Batches are written in the order of eviction; one holds rows of any tables. Guarded by
// the owner's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "embedding_cache/id_map.h"
#include "embedding_cache/row_store.h"

namespace mstrain::embedding_cache {

class WriteBack {
 public:
  // By table: record sizes. A batch is sealed at `batch_rows` rows or `batch_bytes` of memory, whichever is first.
  void reset(std::vector<uint32_t> record_bytes, uint64_t batch_rows, uint64_t batch_bytes);

  void add(uint32_t table, Id id, const std::byte* record);
  const std::byte* find(uint32_t table, Id id) const;  // the newest copy, or null
  // All that the store may not have yet, hidden and older copies too.
  template <class F>
  void each(F&& visit) const {
    for (const Batch& batch : batches_) {
      for (const RowWrite& row : batch.rows) {
        visit(row);
      }
    }
  }
  // There is a newer copy elsewhere: not found here any more, but still written.
  void hide(uint32_t table, Id id) { newest_[table].erase(id); }
  uint64_t bytes() const { return bytes_; }  // of memory for the records
  bool empty() const { return batches_.empty(); }
  void seal();  // what was added so far may be written
  bool has_sealed() const { return takable() > 0; }
  void hold();  // what is added from here on stays until let_go()
  void let_go() { held_from_ = ~uint64_t{0}; }

  // The sealed batches that are not held as one sorted list with only the newest copy of each row; valid until confirm(). At most one list at a time.
  std::vector<RowWrite> take();
  void confirm();  // the store has them

 private:
  struct Batch {
    std::vector<RowWrite> rows;
    std::vector<std::unique_ptr<std::byte[]>> chunks;
    uint64_t bytes = 0;         // of the chunks
    std::byte* next = nullptr;  // free space of the last chunk
    uint64_t left = 0;
  };
  size_t takable() const;
  std::byte* room(Batch& batch, uint64_t bytes);

  std::vector<uint32_t> record_bytes_;
  uint64_t batch_rows_ = 1;
  uint64_t batch_bytes_ = 1;
  std::deque<Batch> batches_;  // taken ones first, then sealed ones, then at most one that is open
  uint64_t first_ = 0;         // number of batches_.front()
  size_t taken_ = 0;
  size_t sealed_ = 0;                  // beyond the taken ones
  uint64_t held_from_ = ~uint64_t{0};  // number of the first batch that is held
  std::vector<IdMap> newest_;          // by table: id -> batch number << 32 | row
  uint64_t bytes_ = 0;
};

}  // namespace mstrain::embedding_cache
