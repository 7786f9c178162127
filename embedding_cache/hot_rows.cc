#include "embedding_cache/hot_rows.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace mstrain::embedding_cache {

HotRows::HotRows(Cache& cache, uint32_t table, uint64_t rows)
    : cache_(cache), table_(table), capacity_(rows) {
  check(!cache.layout(table).learns_always(),
        "embedding_cache: table \"{}\": rows that learn at every step (optimizer.l2_of: table) are "
        "in host memory alone",
        cache.options().tables[table].name);
  forget();
}

void HotRows::forget() {
  slots_ =
      std::make_unique<HostSlots>(capacity_, kHeaderBytes, cache_.options().tables[table_].policy);
}

std::vector<Id> HotRows::missing(std::span<const Id> ids) const {
  std::vector<Slot> slots(ids.size());
  slots_->find(ids, slots.data());
  std::vector<Id> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (slots[i] == kNoSlot) {
      out.push_back(ids[i]);
    }
  }
  return out;
}

HotRows::Batch HotRows::hold(std::span<const Id> ids, std::span<const uint32_t> inverse,
                             uint64_t step) {
  Batch batch;
  batch.step = step;
  batch.slots.resize(ids.size());
  slots_->find(ids, batch.slots.data());
  std::vector<uint32_t> missing;
  std::vector<Id> wanted;
  for (uint32_t u = 0; u < ids.size(); ++u) {
    if (batch.slots[u] == kNoSlot) {
      missing.push_back(u);
      wanted.push_back(ids[u]);
    }
  }
  batch.ticket = cache_.prefetch(table_, wanted, step);
  cache_.wait(batch.ticket);
  std::vector<const std::byte*> records;
  cache_.records(batch.ticket, records);
  const auto turned_away = static_cast<size_t>(std::count(records.begin(), records.end(), nullptr));
  const size_t needed = ids.size() - turned_away;
  if (needed > capacity_) {
    cache_.release(std::move(batch.ticket));
    fail(
        "embedding_cache: table \"{}\": a batch with {} distinct ids does not fit into the {} rows "
        "outside of host memory; raise device_rows, or make batches smaller",
        cache_.options().tables[table_].name, needed, capacity_);
  }
  slots_->advance();
  for (const Slot slot : batch.slots) {
    if (slot != kNoSlot) {
      slots_->pin(slot);
      slots_->use(slot);
    }
  }
  std::vector<bool> is_missing(ids.size());
  for (const uint32_t u : missing) {
    is_missing[u] = true;
  }
  ++stats_.batches;
  stats_.ids += needed;
  stats_.hits += ids.size() - missing.size();
  bring_in(batch, ids, missing, records);
  for (const uint32_t u : inverse) {
    stats_.positions += batch.slots[u] == kNoSlot ? 0 : 1;
    stats_.position_hits += is_missing[u] ? 0 : 1;
  }
  return batch;
}

void HotRows::bring_in(Batch& batch, std::span<const Id> ids, std::span<const uint32_t> missing,
                       const std::vector<const std::byte*>& records) {
  const auto coming = static_cast<uint64_t>(std::count_if(
      records.begin(), records.end(), [](const std::byte* r) { return r != nullptr; }));
  const uint64_t free = capacity_ - slots_->used();
  std::vector<Slot> victims;
  if (coming > free) {
    slots_->choose_victims(coming - free, victims);
  }
  for (const Slot slot : victims) {
    if (slots_->is_dirty(slot)) {
      add(batch.leaving, slot);
    }
    slots_->erase(slot);
  }
  for (size_t i = 0; i < missing.size(); ++i) {
    if (records[i] == nullptr) {
      continue;
    }
    const Slot slot = slots_->insert(ids[missing[i]]);
    slots_->pin(slot);
    slots_->use(slot);
    std::memcpy(slots_->record(slot), records[i], kHeaderBytes);
    batch.slots[missing[i]] = slot;
    batch.coming.push_back(slot);
    batch.records.push_back(records[i]);
  }
  stats_.brought += coming;
}

void HotRows::add(LeavingRows& rows, Slot slot) const {
  rows.slots.push_back(slot);
  rows.ids.push_back(slots_->id(slot));
  rows.headers.push_back(header(slot));
}

void HotRows::learned(Batch&& batch) {
  std::vector<Id> begun;
  uint64_t rows = 0;
  for (const Slot slot : batch.slots) {
    if (slot == kNoSlot) {
      continue;
    }
    ++rows;
    const RowHeader before = header(slot);
    if (before.updates == 0) {
      begun.push_back(slots_->id(slot));
    }
    store_header(slots_->record(slot),
                 {.step = static_cast<uint32_t>(batch.step),
                  .updates = before.updates + (before.updates == 0xffffffffU ? 0U : 1U)});
    slots_->set_dirty(slot, true);
  }
  cache_.learned_outside(batch.ticket, rows, begun);
  let_go(batch);
}

void HotRows::dropped(Batch&& batch) { let_go(batch); }

void HotRows::let_go(Batch& batch) {
  for (const Slot slot : batch.slots) {
    if (slot != kNoSlot) {
      slots_->unpin(slot);
    }
  }
  cache_.release(std::move(batch.ticket));
}

LeavingRows HotRows::changed(size_t most) {
  LeavingRows out;
  // All round: rows behind may have changed since they were passed.
  for (uint64_t i = 0; out.slots.size() < most && i < capacity_; ++i) {
    if (const Slot slot = looked_at_; slots_->is_used(slot) && slots_->is_dirty(slot)) {
      add(out, slot);
      slots_->set_dirty(slot, false);
    }
    looked_at_ = (looked_at_ + 1) % capacity_;
  }
  return out;
}

void HotRows::give_back(const LeavingRows& rows, std::span<const float> values) {
  const uint32_t bytes = cache_.layout(table_).record_bytes();
  const size_t floats = (bytes - kHeaderBytes) / sizeof(float);
  check(values.size() >= rows.slots.size() * floats,
        "embedding_cache: {} floats are not {} rows of {}", values.size(), rows.slots.size(),
        floats);
  std::vector<std::byte> records(rows.slots.size() * bytes);
  for (size_t i = 0; i < rows.slots.size(); ++i) {
    std::byte* const record = records.data() + i * bytes;
    store_header(record, rows.headers[i]);
    std::memcpy(record + kHeaderBytes, values.data() + i * floats, bytes - kHeaderBytes);
  }
  cache_.put(table_, rows.ids, records);
  stats_.given_back += rows.slots.size();
}

}  // namespace mstrain::embedding_cache
