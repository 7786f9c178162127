// Rows in host memory: a fixed number of slots, an index from ids to slots, pins, and the choice of who leaves.
//
// Beside its record a row costs 15.8 bytes: id 8, index 4 / 0.85, time 2, pins 1. There are no lists: a row carries the time (counted in
// batches) of its next use where the look-ahead window knows one, else of its last use, and victims are found by scanning that array
// for many evictions at once. With LFU the time is a count of uses that halves for all when one overflows.
//
// Bookkeeping is not thread-safe (the cache holds a lock); records of pinned slots may be read and written by anyone who orders that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "embedding_cache/options.h"

namespace mstrain::embedding_cache {

using Slot = uint32_t;
inline constexpr Slot kNoSlot = ~Slot{0};

class HostSlots {
 public:
  // Reserves address space for `rows` records; pages are touched as slots are used.
  HostSlots(uint64_t rows, uint32_t record_bytes, Policy policy);
  ~HostSlots();
  HostSlots(const HostSlots&) = delete;
  HostSlots& operator=(const HostSlots&) = delete;

  uint64_t capacity() const { return capacity_; }
  uint32_t record_bytes() const { return record_bytes_; }
  uint64_t used() const { return used_; }
  uint64_t pinned() const { return pinned_; }  // slots with at least one pin
  std::byte* record(Slot slot) { return records_ + uint64_t{slot} * record_bytes_; }
  Id id(Slot slot) const { return ids_[slot]; }
  uint64_t overhead_bytes() const;  // everything but the records

  // The slot of each id, or kNoSlot.
  void find(std::span<const Id> ids, Slot* slots) const;

  static constexpr uint32_t kMaxPins = 60;
  bool is_used(Slot slot) const { return pins(slot) != kFree; }
  bool is_pinned(Slot slot) const { return pins(slot) != 0 && pins(slot) != kFree; }
  bool may_pin(Slot slot) const { return pins(slot) < kMaxPins; }
  void pin(Slot slot) {
    pinned_ += pins(slot) == 0 ? 1 : 0;
    ++flags_[slot];
  }
  void unpin(Slot slot);
  bool is_dirty(Slot slot) const { return (flags_[slot] & kDirty) != 0; }
  void set_dirty(Slot slot, bool dirty) { set(slot, kDirty, dirty); }
  // A frozen row must be saved for a commit before it changes or leaves. The owner sees to that.
  bool is_frozen(Slot slot) const { return (flags_[slot] & kFrozen) != 0; }
  void set_frozen(Slot slot, bool frozen) { set(slot, kFrozen, frozen); }

  // The batches that have been prefetched so far; uses are stamped with this time.
  uint64_t now() const { return now_; }
  void advance();
  void use(Slot slot);                        // at now()
  void expect(Slot slot, uint64_t next_use);  // look-ahead: also used at that later batch
  bool is_expected(Slot slot) const { return base_ + times_[slot] > now_; }

  // A free slot for `id`, which has none. There must be one.
  Slot insert(Id id);
  void erase(Slot slot);  // unpinned

  // Chooses `count` unpinned slots to leave; at least so many must be there. They stay until erased.
  void choose_victims(uint64_t count, std::vector<Slot>& out);

  template <class F>
  void each(F&& visit) const {
    each(0, touched_, visit);
  }
  // Of the slots [begin, end); false where there are none from `end` on.
  template <class F>
  bool each(Slot begin, Slot end, F&& visit) const {
    for (Slot slot = begin; slot < std::min(end, touched_); ++slot) {
      if (is_used(slot)) {
        visit(slot);
      }
    }
    return end < touched_;
  }

 private:
  static constexpr uint8_t kDirty = 0x80;
  static constexpr uint8_t kFrozen = 0x40;
  static constexpr uint8_t kPins = 0x3f;
  static constexpr uint8_t kFree = 0x3f;
  uint8_t pins(Slot slot) const { return flags_[slot] & kPins; }
  void set(Slot slot, uint8_t flag, bool on) {
    flags_[slot] = static_cast<uint8_t>(on ? flags_[slot] | flag : flags_[slot] & ~flag);
  }

  uint64_t home(Id id, uint32_t& tag) const;
  uint32_t rank(uint16_t time) const;  // lower leaves first
  void refill(uint64_t count);
  void rebase();

  uint64_t capacity_;
  uint32_t record_bytes_;
  Policy policy_;
  uint64_t used_ = 0;
  uint64_t pinned_ = 0;
  Slot touched_ = 0;     // slots from here on were never used
  Slot free_ = kNoSlot;  // first of the freed ones, chained through ids_
  std::byte* records_ = nullptr;
  uint64_t record_space_ = 0;

  // Index cells hold slot + 1 in the low bits and a piece of the id's hash above, so that most misses cost one load. By hand: a library's flat
  // map keeps ids in its cells, once more and in 12 to 16 bytes instead of 4, and finds them one by one.
  std::vector<uint32_t> cells_;
  uint32_t slot_mask_;
  std::vector<Id> ids_;
  std::vector<uint16_t> times_;
  std::vector<uint8_t> flags_;
  uint64_t now_ = 0;
  uint64_t base_ = 0;  // the batch that time 0 stands for

  struct Victim {
    Slot slot;
    uint16_t time;
  };
  std::vector<Victim> queue_;  // best victim last; entries whose time has changed no longer count
};

}  // namespace mstrain::embedding_cache
