// Rows of a table whose newest values lie outside of the cache, over host memory: in the memory of a device that computes, say. This keeps
// the books: which slot there each row has, which rows a batch brings in, and whose slots they get. It moves no numbers: whoever has the
// memory copies rows in and out as it is told, and has them learn there with the bits of Cache::update.
//
//   HotRows hot(cache, table, 100'000);
//   HotRows::Batch batch = hot.hold(ids, step);                 // distinct ids
//   LeavingRows leaving = std::move(batch.leaving);
//   ... copy the rows of leaving.slots out, then batch.records into batch.coming; learn in batch.slots ...
//   hot.learned(std::move(batch));
//   hot.give_back(leaving, floats);                             // before the next hold()
//   for (LeavingRows home; !(home = hot.changed(4096)).slots.empty();) { ... hot.give_back(home, floats); }   // before a commit
//
// The index lies on the host: whoever plans a batch knows all of its ids before the device needs one, so that kernels there have slots where
// others look ids up.
//
// The cache is asked for what is not outside alone, and what it has of the others may be old: before a commit, evict(), a read, or
// anything else of it that looks at rows, changed rows are given back. Not thread-safe; one a table.
#pragma once

#include <memory>

#include "embedding_cache/cache.h"
#include "embedding_cache/host_slots.h"

namespace mstrain::embedding_cache {

// Rows whose values are wanted from outside: floats of a record, weights and then state, for each of `slots`.
struct LeavingRows {
  std::vector<Slot> slots;
  std::vector<Id> ids;
  std::vector<RowHeader> headers;
};

class HotRows {
 public:
  // `rows`: slots there are outside, of 0 to rows - 1. Throws Error where a segment of the table learns at every step.
  HotRows(Cache& cache, uint32_t table, uint64_t rows);

  struct Batch {
    std::vector<Slot>
        slots;  // of each id; kNoSlot: it was not admitted, reads as zeros and learns nothing
    LeavingRows leaving;  // changed rows whose slots others get
    std::vector<Slot> coming;
    std::vector<const std::byte*>
        records;  // for each of these, as host memory has them; valid until learned() or dropped()
    uint64_t step = 0;
    Ticket ticket;  // holds these
  };
  struct Stats {
    uint64_t batches = 0, ids = 0, hits = 0, positions = 0, position_hits = 0;
    uint64_t brought = 0, given_back = 0;  // rows
  };

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return slots_->used(); }
  const Stats& stats() const { return stats_; }
  // Those that are not outside: what to prefetch ahead of their batch.
  std::vector<Id> missing(std::span<const Id> ids) const;

  // The rows of a batch of training: distinct ids, of so many positions each. One batch at a time. Waits for rows that host memory does not have. Throws
  // Error, with nothing changed, where they do not fit, here or in host memory.
  Batch hold(std::span<const Id> ids, std::span<const uint32_t> inverse, uint64_t step);
  // What hold() gave has learned at its step, or (dropped) has not.
  void learned(Batch&& batch);
  void dropped(Batch&& batch);

  // Up to `most` rows of which the cache has no newest value, others each time until there are none; they count as given back from now on.
  LeavingRows changed(size_t most);
  // Their values, [slots, floats of a record].
  void give_back(const LeavingRows& rows, std::span<const float> values);
  // Nothing is outside any more, as after evict(). Changed rows have been given back.
  void forget();

 private:
  RowHeader header(Slot slot) const { return load_header(slots_->record(slot)); }
  void bring_in(Batch& batch, std::span<const Id> ids, std::span<const uint32_t> missing,
                const std::vector<const std::byte*>& records);
  void add(LeavingRows& rows, Slot slot) const;
  void let_go(Batch& batch);

  Cache& cache_;
  uint32_t table_;
  uint64_t capacity_;
  std::unique_ptr<HostSlots> slots_;  // of headers alone
  Slot looked_at_ = 0;                // by changed()
  Stats stats_;
};

}  // namespace mstrain::embedding_cache
