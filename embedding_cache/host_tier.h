// Host memory as a tier: the slots of every table. It holds what it was given room for; rows that come from elsewhere replace those that
// are here and bring in no others. Guarded by the owner's mutex.
#pragma once

#include <vector>

#include "embedding_cache/host_slots.h"
#include "embedding_cache/tier.h"

namespace mstrain::embedding_cache {

class HostTier final : public Tier {
 public:
  void add_table(HostSlots& slots) { tables_.push_back(&slots); }  // must outlive it

  const char* name() const override { return "host memory"; }
  void read(uint32_t table, std::span<const Id> ids, std::byte* const* into, bool* found) override;
  // Rows written or deleted here are clean: the tiers below have them already. None may be pinned.
  void write(std::span<const RowWrite> rows) override;

  // Visits the changed rows, which the tiers below do not have yet, in the order of their slots.
  template <class F>
  void each_dirty(F&& visit) const {
    for (uint32_t t = 0; t < tables_.size(); ++t) {
      tables_[t]->each([&](Slot slot) {
        if (tables_[t]->is_dirty(slot)) {
          visit(t, slot);
        }
      });
    }
  }

 private:
  std::vector<HostSlots*> tables_;
};

}  // namespace mstrain::embedding_cache
