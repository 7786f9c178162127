// Rows whose newest values lie outside of the cache (hot_rows.h).
#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {

void Core::records(const TicketState& ticket, std::vector<const std::byte*>& out) {
  check_ticket(ticket, "records");
  const std::lock_guard lock(mutex_);
  check_order(ticket, "records");
  out.resize(ticket.records.size());
  for (size_t u = 0; u < out.size(); ++u) {
    out[u] = ticket.slots[u] == kNoSlot ? nullptr : ticket.records[u];
  }
}

void Core::learned_outside(TicketState& ticket, uint64_t rows, std::span<const Id> begun) {
  check_ticket(ticket, "learned_outside");
  Table& table = at(ticket.table);
  check(ticket.use == Use::kTrain && !ticket.updated,
        "embedding_cache: learned_outside of step {} for a ticket that only reads, or was updated "
        "already",
        ticket.step);
  const std::lock_guard lock(mutex_);
  check_order(ticket, "learned_outside");
  note_learned(table, ticket);
  table.stats.updates += rows;
  table.rows += begun.size();
  if (sweep_ != nullptr && sweep_->tables[ticket.table].lowest) {
    std::vector<Id>& all = sweep_->tables[ticket.table].begun;
    all.insert(all.end(), begun.begin(), begun.end());
  }
}

// A row that is being fetched would be overwritten by what is older.
bool Core::is_fetched(uint32_t table, std::span<const Id> ids) const {
  return std::any_of(fetches_.begin(), fetches_.end(), [&](const auto& each) {
    const Fetch& fetch = *each.second;
    return fetch.table == table && std::any_of(ids.begin(), ids.end(), [&](Id id) {
             return std::binary_search(fetch.ids.begin(), fetch.ids.end(), id);
           });
  });
}

void Core::put(uint32_t index, std::span<const Id> ids, std::span<const std::byte> records) {
  Table& table = at(index);
  const uint32_t bytes = table.layout.record_bytes();
  check(records.size() == ids.size() * bytes,
        "embedding_cache: put: {} bytes are not {} records of {}", records.size(), ids.size(),
        bytes);
  const std::lock_guard learning(table.learning);
  Lock lock(mutex_);
  wait_until(
      lock,
      [&] {
        return write_back_.bytes() <= write_back_bytes(options.store) && !is_fetched(index, ids);
      },
      "writing rows back, or fetching rows that are given back,");
  std::vector<Slot> slots(ids.size());
  table.host.find(ids, slots.data());
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::byte* const record = records.data() + i * bytes;
    if (slots[i] != kNoSlot) {
      save_frozen(index, std::span(&slots[i], 1));
      std::memcpy(table.host.record(slots[i]), record, bytes);
      table.host.set_dirty(slots[i], true);
    } else {
      write_back_.add(index, ids[i], record);
    }
    if (options.check_shadow) {
      table.shadow[ids[i]].assign(record, record + bytes);
    }
  }
  start_writer();
}

}  // namespace mstrain::embedding_cache
