#include "embedding_cache/host_tier.h"

#include <algorithm>
#include <cstring>

namespace mstrain::embedding_cache {

void HostTier::read(uint32_t table, std::span<const Id> ids, std::byte* const* into, bool* found) {
  HostSlots& slots = *tables_[table];
  std::vector<Slot> at(ids.size());
  slots.find(ids, at.data());
  for (size_t i = 0; i < ids.size(); ++i) {
    found[i] = at[i] != kNoSlot;
    if (found[i]) {
      std::memcpy(into[i], slots.record(at[i]), slots.record_bytes());
    }
  }
}

void HostTier::write(std::span<const RowWrite> rows) {
  std::vector<Id> ids;
  std::vector<Slot> at;
  for (size_t begin = 0; begin < rows.size();) {
    const uint32_t table = rows[begin].table;
    HostSlots& slots = *tables_[table];
    ids.clear();
    size_t end = begin;
    for (; end < rows.size() && rows[end].table == table; ++end) {
      ids.push_back(rows[end].id);
    }
    if (slots.used() > 0) {
      at.resize(ids.size());
      slots.find(ids, at.data());
      for (size_t i = 0; i < at.size(); ++i) {
        const std::byte* record = rows[begin + i].record;
        if (at[i] == kNoSlot) {
          continue;
        }
        if (record == nullptr) {
          slots.erase(at[i]);
        } else {
          std::memcpy(slots.record(at[i]), record, slots.record_bytes());
          slots.set_dirty(at[i], false);
        }
      }
    }
    begin = end;
  }
}

}  // namespace mstrain::embedding_cache
