#include "mcts/search/totals.h"

namespace mstrain::mcts {

Totals::Slot& Totals::Shard::add(const Slot& slot) {
  if (2 * (used + 1) > slots.size()) {
    std::vector<Slot> before(std::max<size_t>(4, 2 * slots.size()));
    before.swap(slots);
    used = 0;
    for (const Slot& old : before) {
      if (old.key != kNobody) {
        add(old);
      }
    }
  }
  ++used;
  return slots[seek(slot.key)] = slot;
}

void Totals::clear() {
  for (Shard& shard : shards_) {
    shard.slots = {};
    shard.used = 0;
  }
}

void Totals::move_blocks(std::span<const std::pair<uint32_t, uint32_t>> moved) {
  std::vector<Slot> all;
  for (Shard& shard : shards_) {
    for (const Slot& slot : shard.slots) {
      if (slot.key != kNobody) {
        all.push_back(slot);
      }
    }
  }
  clear();
  for (Slot& slot : all) {
    const auto from = static_cast<uint32_t>(slot.key >> 32U);
    const auto place = std::lower_bound(moved.begin(), moved.end(), from,
                                        [](const std::pair<uint32_t, uint32_t>& each,
                                           uint32_t index) { return each.first < index; });
    if (place != moved.end() && place->first == from) {
      slot.key = (uint64_t{place->second} << 32U) | (slot.key & UINT32_MAX);
      shards_[shard_of(slot.key)].add(slot);
    }
  }
}

size_t Totals::bytes() const {
  size_t bytes = 0;
  for (const Shard& shard : shards_) {
    bytes += shard.slots.size() * sizeof(Slot);
  }
  return bytes;
}

}  // namespace mstrain::mcts
