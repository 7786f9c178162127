// Sums and counts that the columns of a block cannot hold. A float that counts by ones stops at 2^24 and drifts before that,
// a 32-bit count ends at 2^32. Edges that are visited so often are few (of N visits some N / kExactFrom at each depth), so the
// exact number that a column cannot show stands here, in 24 bytes, and it shows the rounded one, which is what selection reads.
//
// A sum is exact as far as a double is: 2^53 ones, an error of 2^-53 of the sum for each value added otherwise.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "mcts/search/access.h"

namespace mstrain::mcts {

inline constexpr uint32_t kExactFrom = 4096;             // visits from which sums are exact
inline constexpr uint32_t kCountFrom = 1U << 30U;        // visits from which these do
inline constexpr uint32_t kMostShown = (1U << 31U) - 1;  // a column of visits shows no more

class Totals {
 public:
  static uint64_t key(uint32_t block, uint32_t column, uint32_t edge) {
    return (uint64_t{block} << 32U) | (uint64_t{column} << 16U) | edge;
  }

  // total = change(total), where the column at `shown` shows round(total * scale); the total begins with what is shown.
  // Returns the new total. Several threads at once where kShared.
  template <bool kShared, class T, class Change>
  double update(uint64_t key, T* shown, double scale, Change change) {
    constexpr Access kAccess = kShared ? Access::kShared : Access::kPlain;
    Shard& shard = shards_[shard_of(key)];
    const Lock lock(kShared ? &shard.busy : nullptr);
    T before = read<kAccess>(shown);
    Slot& slot = shard.find_or_add(key, before, static_cast<double>(before) / scale);
    for (double total = slot.total;;) {
      // Threads that saw fewer visits a moment ago added to the column itself.
      const auto late = static_cast<double>(before) - static_cast<double>(slot.shown<T>());
      const double next = change(total + late / scale);
      T after = round<T>(next * scale);
      if constexpr (kShared) {
        if (!__atomic_compare_exchange(shown, &before, &after, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED)) {
          continue;
        }
      } else {
        *shown = after;
      }
      slot.total = next;
      slot.bits = std::bit_cast<uint32_t>(after);
      return next;
    }
  }

  // The exact number, or `shown` where there is none. While others update, where kShared.
  template <bool kShared = false, class T>
  double find(uint64_t key, T shown) const {
    const Shard& shard = shards_[shard_of(key)];
    const Lock lock(kShared ? &shard.busy : nullptr);
    const Slot* slot = shard.find(key);
    return slot == nullptr ? static_cast<double>(shown) : slot->total;
  }

  // What `from` has, where it has anything, belongs to `to` as well. One thread.
  void copy(uint64_t from, uint64_t to) {
    if (const Slot* slot = shards_[shard_of(from)].find(from)) {
      shards_[shard_of(to)].add({to, slot->total, slot->bits});
    }
  }
  void clear();
  // Blocks have moved: (from, to) in ascending order of `from`. What belongs to others is forgotten.
  void move_blocks(std::span<const std::pair<uint32_t, uint32_t>> moved);
  size_t bytes() const;

 private:
  struct Slot {
    uint64_t key = kNobody;
    double total = 0;
    uint32_t bits = 0;  // of what the column showed last
    template <class T>
    T shown() const {
      return std::bit_cast<T>(bits);
    }
  };
  struct Shard {
    std::vector<Slot> slots;  // open addressing, at most half full; a power of two
    size_t used = 0;
    mutable std::atomic_flag busy = ATOMIC_FLAG_INIT;

    // Where the key stands or would stand; not for an empty table.
    size_t seek(uint64_t key) const {
      const size_t mask = slots.size() - 1;
      size_t i = place(key) & mask;
      while (slots[i].key != key && slots[i].key != kNobody) {
        i = (i + 1) & mask;
      }
      return i;
    }
    const Slot* find(uint64_t key) const {
      const Slot* slot = slots.empty() ? nullptr : &slots[seek(key)];
      return slot != nullptr && slot->key == key ? slot : nullptr;
    }
    template <class T>
    Slot& find_or_add(uint64_t key, T shown, double total) {
      if (!slots.empty()) {
        if (Slot& slot = slots[seek(key)]; slot.key == key) {
          return slot;
        }
      }
      return add({key, total, std::bit_cast<uint32_t>(shown)});
    }
    Slot& add(const Slot& slot);
  };
  // Held for some tens of instructions.
  class Lock {
   public:
    explicit Lock(std::atomic_flag* busy) : busy_(busy) {
      while (busy_ != nullptr && busy_->test_and_set(std::memory_order_acquire)) {
        std::this_thread::yield();
      }
    }
    ~Lock() {
      if (busy_ != nullptr) {
        busy_->clear(std::memory_order_release);
      }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::atomic_flag* busy_;
  };

  static constexpr uint64_t kNobody = UINT64_MAX;  // no edge has this number
  static constexpr uint32_t kShards = 16;
  static uint64_t place(uint64_t key) { return (key * 0x9e3779b97f4a7c15U) >> 24U; }
  static uint32_t shard_of(uint64_t key) { return (key * 0x9e3779b97f4a7c15U) >> 60U; }
  template <class T>
  static T round(double x) {
    if constexpr (std::is_same_v<T, float>) {
      return static_cast<float>(x);
    } else {
      return static_cast<T>(std::clamp(x, 0.0, static_cast<double>(kMostShown)));
    }
  }

  std::array<Shard, kShards> shards_;
};

}  // namespace mstrain::mcts
