// Bringing the rows of a batch into memory and handing them out.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "embedding_cache/core.h"
#include "embedding_cache/pool.h"
#include "embedding_cache/stopwatch.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kChunkMin = 16;  // keys of one read
constexpr size_t kChunkMax = 128;

}  // namespace

void Core::check_step(const Table& table, uint64_t step) const {
  check(step > 0 && step <= 0xffffffffU, "embedding_cache: step {}; steps are from 1 to 2^32 - 1",
        step);
  check(step > barrier_step_,
        "embedding_cache: prefetch of step {}, but the last commit holds step {}; later batches "
        "need later steps",
        step, barrier_step_);
  check(step >= table.last_step,
        "embedding_cache: table \"{}\": prefetch of step {} after step {}; steps never decrease",
        table.options.name, step, table.last_step);
}

void Core::plan_batch(const Table& table, TicketState& ticket, std::vector<bool>& refused) {
  const std::vector<Id>& ids = ticket.batch.unique;
  const bool filtered = table.options.admission.kind != AdmissionKind::kNone;
  ticket.slots.resize(ids.size());
  table.host.find(ids, ticket.slots.data());
  refused.assign(filtered ? ids.size() : 0, false);
  uint64_t missing = 0;
  uint64_t newly_pinned = 0;
  for (size_t u = 0; u < ids.size(); ++u) {
    if (filtered && !(ticket.use == Use::kTrain ? table.admission.would_admit(ids[u], ticket.step)
                                                : table.admission.is_admitted(ids[u]))) {
      refused[u] = true;
      ticket.slots[u] = kNoSlot;
    } else if (ticket.slots[u] == kNoSlot) {
      ++missing;
    } else {
      check(table.host.may_pin(ticket.slots[u]),
            "embedding_cache: row {} of table \"{}\" is held by {} open tickets; release some",
            ids[u], table.options.name, HostSlots::kMaxPins);
      newly_pinned += table.host.is_pinned(ticket.slots[u]) ? 0 : 1;
    }
  }
  const uint64_t held = table.host.pinned();
  check(
      held + newly_pinned + missing <= table.host.capacity(),
      "{}: table \"{}\": a batch with {} distinct ids does not fit: of {} rows in host memory, {} "
      "are held by open tickets and this batch needs {} more; raise it{}",
      table.options.host_rows_key, table.options.name, ids.size(), table.host.capacity(), held,
      newly_pinned + missing, held > 0 ? ", or release before prefetching so far ahead" : "");
}

std::unique_ptr<TicketState> Core::prefetch(uint32_t index, std::span<const Id> ids, uint64_t step,
                                            Use use) {
  Table& table = at(index);
  Lock lock(mutex_);
  const Stopwatch watch(times_.prefetch_seconds);
  check(!quiet_ || quiet_thread_ != std::this_thread::get_id(),
        "embedding_cache: prefetch from inside a scan's visitor");
  wait_until(
      lock,
      [this] {
        const bool still_filling = !fetches_.empty() && fetches_.begin()->first <= unawaited_;
        return write_back_.bytes() <= write_back_bytes(options.store) && !still_filling && !quiet_;
      },
      "writing rows back, a fetch whose ticket was released early, or a call that wants no "
      "ticket,");
  if (!dropped_.empty()) {
    throw Error(std::exchange(dropped_, {}));
  }
  const bool train = use == Use::kTrain;
  if (train) {
    check_step(table, step);
  }

  auto ticket = std::make_unique<TicketState>();
  ticket->table = index;
  ticket->step = step;
  ticket->use = use;
  if (train && std::exchange(table.gave_back, false) && table.window.size() > 0 &&
      table.window.front().hash != hash_bytes(std::as_bytes(ids))) {
    table.window = {};  // begins behind the batches that were given back
  }
  const bool announced = train && table.window.size() > 0;
  if (announced) {
    check(table.window.front().hash == hash_bytes(std::as_bytes(ids)),
          "embedding_cache: table \"{}\": the batch of step {} is not the one that was announced "
          "next",
          table.options.name, step);
    ticket->batch = table.window.front().batch;
  } else {
    // What is read ahead was announced before.
    const LookAhead::Entry* const known =
        table.window.size() == 0 ? nullptr : table.window.find(hash_bytes(std::as_bytes(ids)));
    if (known != nullptr) {
      ticket->batch = known->batch;
    } else {
      table.dedup.run(ids, ticket->batch);
    }
  }
  std::vector<bool> refused;
  plan_batch(table, *ticket, refused);

  try {
    return hold_batch(std::move(ticket), announced, refused);
  } catch (...) {  // want of memory, half-way
    poison(fmt::format("prefetch of step {} failed half-way", step), nullptr);
    throw;
  }
}

// Brings in a batch that fits.
std::unique_ptr<TicketState> Core::hold_batch(std::unique_ptr<TicketState> ticket, bool announced,
                                              const std::vector<bool>& refused) {
  Table& table = *tables[ticket->table];
  const bool train = ticket->use == Use::kTrain;
  const std::vector<uint64_t> next = announced ? table.window.pop().next : std::vector<uint64_t>();
  if (train) {
    table.last_step = ticket->step;
    note_training(table, ticket->step);
    table.host.advance();
    table.stats.batches += 1;
    if (table.options.admission.kind != AdmissionKind::kNone) {
      table.admission.turn(ticket->step);
      for (const Id id : ticket->batch.unique) {
        table.admission.count(id, ticket->step);
      }
    }
  }
  const std::vector<uint32_t> missing = hold_resident(table, *ticket, refused, next);
  count_hits(table, *ticket, refused, missing);
  evict_for(ticket->table, missing.size());
  bring_in(*ticket, missing, next);
  ticket->records.resize(ticket->slots.size());
  for (size_t u = 0; u < ticket->slots.size(); ++u) {
    ticket->records[u] =
        ticket->slots[u] == kNoSlot ? table.zeros.data() : table.host.record(ticket->slots[u]);
  }
  ticket->needs_fetch = next_fetch_ - 1;
  ticket->core = shared_from_this();
  if (train) {
    table.training.push_back(ticket.get());
  }
  ++open_tickets_;
  return ticket;
}

// Pins the rows that are here; returns the indices of those that are not and get a row.
std::vector<uint32_t> Core::hold_resident(Table& table, const TicketState& ticket,
                                          const std::vector<bool>& refused,
                                          const std::vector<uint64_t>& next) {
  std::vector<uint32_t> missing;
  for (uint32_t u = 0; u < ticket.slots.size(); ++u) {
    const Slot slot = ticket.slots[u];
    if (slot == kNoSlot) {
      if (refused.empty() || !refused[u]) {
        missing.push_back(u);
      }
      continue;
    }
    table.host.pin(slot);
    if (ticket.use == Use::kTrain || !table.host.is_expected(slot)) {
      table.host.use(slot);
    }
    if (!next.empty() && next[u] != 0) {
      table.host.expect(slot, next[u]);
    }
  }
  return missing;
}

void Core::count_hits(Table& table, const TicketState& ticket, const std::vector<bool>& refused,
                      const std::vector<uint32_t>& missing) {
  const Batch& batch = ticket.batch;
  TableStats& stats = table.stats;
  const auto turned_away = static_cast<uint64_t>(std::count(refused.begin(), refused.end(), true));
  stats.refused += turned_away;
  stats.ids += batch.unique.size() - turned_away;
  stats.id_hits += batch.unique.size() - turned_away - missing.size();
  stats.positions += batch.inverse.size();
  stats.position_hits += batch.inverse.size();
  if (missing.empty() && turned_away == 0) {
    return;
  }
  const auto positions_of = [&](const std::vector<bool>& some) {
    return static_cast<uint64_t>(std::count_if(batch.inverse.begin(), batch.inverse.end(),
                                               [&](uint32_t u) { return some[u]; }));
  };
  if (turned_away > 0) {
    const uint64_t count = positions_of(refused);
    stats.positions -= count;
    stats.position_hits -= count;
  }
  std::vector<bool> is_missing(batch.unique.size());
  for (const uint32_t u : missing) {
    is_missing[u] = true;
  }
  stats.position_hits -= positions_of(is_missing);
}

void Core::evict_for(uint32_t index, uint64_t missing) {
  Table& table = *tables[index];
  const uint64_t free = table.host.capacity() - table.host.used();
  if (missing <= free) {
    return;
  }
  std::vector<Slot> victims;
  table.host.choose_victims(missing - free, victims);
  for (const Slot slot : victims) {
    if (table.host.is_frozen(slot)) {
      write_back_.hide(index, table.host.id(slot));
      save_frozen(index, std::span(&slot, 1));
    }
    if (table.host.is_dirty(slot)) {
      write_back_.add(index, table.host.id(slot), table.host.record(slot));
      ++table.stats.evicted_dirty;
    } else {
      ++table.stats.evicted_clean;
    }
    table.host.erase(slot);
  }
  start_writer();
}

// A slot for every missing row; what is on its way out is taken back, the rest is read.
void Core::bring_in(TicketState& ticket, const std::vector<uint32_t>& missing,
                    const std::vector<uint64_t>& next) {
  Table& table = *tables[ticket.table];
  std::vector<std::pair<Id, std::byte*>> wanted;
  wanted.reserve(missing.size());
  for (const uint32_t u : missing) {
    const Id id = ticket.batch.unique[u];
    const Slot slot = table.host.insert(id);
    ticket.slots[u] = slot;
    table.host.pin(slot);
    table.host.use(slot);
    if (!next.empty() && next[u] != 0) {
      table.host.expect(slot, next[u]);
    }
    const std::byte* leaving = write_back_.find(ticket.table, id);
    if (leaving == nullptr && pending_ != nullptr && !pending_->in_store) {
      leaving = pending_->rows.find(ticket.table, id);
    }
    if (leaving != nullptr) {
      // Clean: that write still comes, before any later one of this row.
      std::memcpy(table.host.record(slot), leaving, table.layout.record_bytes());
      ++table.stats.write_back_hits;
    } else {
      wanted.emplace_back(id, table.host.record(slot));
    }
  }
  if (wanted.empty()) {
    return;
  }
  std::sort(wanted.begin(), wanted.end());
  const auto fetch = std::make_shared<Fetch>();
  fetch->number = next_fetch_++;
  fetch->table = ticket.table;
  for (const auto& [id, into] : wanted) {
    fetch->ids.push_back(id);
    fetch->into.push_back(into);
  }
  start_fetch(fetch);
}

void Core::start_fetch(const std::shared_ptr<Fetch>& fetch) {
  fetches_[fetch->number] = fetch;
  const size_t count = fetch->ids.size();
  const auto threads = static_cast<size_t>(options.store.read_threads);
  const size_t chunk = std::clamp((count + threads - 1) / threads, kChunkMin, kChunkMax);
  fetch->chunks_left = (count + chunk - 1) / chunk;
  for (size_t begin = 0; begin < count; begin += chunk) {
    readers_->submit([this, fetch, begin, end = std::min(count, begin + chunk)] {
      run_chunk(fetch, begin, end);
    });
  }
}

void Core::run_chunk(const std::shared_ptr<Fetch>& fetch, size_t begin, size_t end) {
  std::exception_ptr error;
  try {
    const std::span<const Id> ids = std::span(fetch->ids).subspan(begin, end - begin);
    bool found[kChunkMax] = {};
    read_through(below(), fetch->table, ids, &fetch->into[begin], found);
    const Table& table = *tables[fetch->table];
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!found[i]) {
        table.layout.initialise(table.seed, ids[i], fetch->into[begin + i]);
      }
    }
  } catch (...) {
    error = std::current_exception();
  }
  end_chunk(*fetch, error);
}

void Core::end_chunk(Fetch& fetch, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error) {
    poison("a fetch failed", std::move(error));
  }
  if (--fetch.chunks_left == 0) {
    fetches_.erase(fetch.number);
    changed_.notify_all();
  }
}

void Core::wait(TicketState& ticket) {
  check_ticket(ticket, "wait");
  Lock lock(mutex_);
  const Stopwatch watch(times_.wait_seconds);
  wait_until(
      lock, [&] { return fetches_.empty() || fetches_.begin()->first > ticket.needs_fetch; },
      "a fetch of rows");
  ticket.waited = true;
}

// Older batches of training that have not been learned yet.
void Core::check_order(const TicketState& ticket, const char* call) {
  require_healthy();
  check(ticket.waited, "embedding_cache: {} of step {} before wait", call, ticket.step);
  const auto& training = at(ticket.table).training;
  const auto mine = std::find(training.begin(), training.end(), &ticket);
  if (mine == training.end()) {
    return;
  }
  const auto older = static_cast<uint64_t>(mine - training.begin());
  check(older <= options.bounded_staleness,
        "embedding_cache: {} of step {} while {} earlier batches of table \"{}\" (from step {}) "
        "are not updated yet, and "
        "bounded_staleness is {}; update or release them first",
        call, ticket.step, older, at(ticket.table).options.name, training.front()->step,
        options.bounded_staleness);
}

Core::Still Core::hold_still(std::span<const HeldLookup> lookups) {
  std::set<uint32_t> read;
  for (const HeldLookup& lookup : lookups) {
    read.insert(lookup.ticket->table);
  }
  Still out;
  for (const uint32_t table : read) {
    out.shared.emplace_back(at(table).learning);
  }
  if (std::none_of(lookups.begin(), lookups.end(), [&](const HeldLookup& lookup) {
        return at(lookup.ticket->table).past.is_any_late(lookup.ticket->records);
      })) {
    return out;
  }
  // Held alone until they are read: other steps could come between writing and sharing, time and again.
  out.shared.clear();
  for (const uint32_t table : read) {
    if (at(table).layout.learns_always()) {
      out.alone.emplace_back(at(table).learning);
    } else {
      out.shared.emplace_back(at(table).learning);
    }
  }
  for (const HeldLookup& lookup : lookups) {
    catch_up(*lookup.ticket);
  }
  return out;
}

void Core::gather(std::span<const HeldLookup> lookups, Tile tile) {
  const auto start = std::chrono::steady_clock::now();
  for (const HeldLookup& lookup : lookups) {
    check_ticket(*lookup.ticket, "gather");
  }
  {
    const std::lock_guard lock(mutex_);
    for (const HeldLookup& lookup : lookups) {
      check_order(*lookup.ticket, "gather");
    }
  }
  const Still still = hold_still(lookups);
  constexpr size_t kChunk = 2048;  // positions, about
  struct Share {
    PoolJob job;
    size_t begin, end;
  };
  std::vector<Share> shares;
  for (const auto& [ticket, bags, out, stride] : lookups) {
    check_shadow(*ticket);
    const std::span<const uint32_t> inverse = ticket->batch.inverse;
    const Columns columns =
        check_bags(bags, inverse.size(), at(ticket->table).layout, stride, "gather");
    const size_t count = rows_of(bags, inverse.size());
    const size_t end = std::min(tile.end, count);
    check(tile.begin <= end, "embedding_cache: gather: rows [{}, {}) of {}", tile.begin, end,
          count);
    const size_t each = std::max<size_t>(1, kChunk * count / std::max<size_t>(1, inverse.size()));
    for (size_t row = tile.begin; row < end; row += each) {
      shares.push_back({{ticket->records.data(), inverse, bags, columns, out, stride, tile.begin},
                        row,
                        std::min(end, row + each)});
    }
  }
  const auto pool = [&](int64_t from, int64_t to) {
    for (const Share& share :
         std::span(shares).subspan(static_cast<size_t>(from), static_cast<size_t>(to - from))) {
      pool_rows(share.job, share.begin, share.end);
    }
  };
  if (shares.size() <= 2) {
    pool(0, std::ssize(shares));
  } else {
    workers_->parallel_for(std::ssize(shares), 1, pool);
  }
  const std::lock_guard lock(mutex_);
  times_.gather_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Core::rows(const TicketState& ticket, std::vector<const float*>& out) {
  check_ticket(ticket, "rows");
  {
    const std::lock_guard lock(mutex_);
    check_order(ticket, "rows");
  }
  const HeldLookup lookup{.ticket = &ticket};
  const Still still = hold_still(std::span(&lookup, 1));
  check_shadow(ticket);
  out.resize(ticket.records.size());
  std::transform(ticket.records.begin(), ticket.records.end(), out.begin(),
                 [](std::byte* record) { return weights_of(record); });
}

void Core::check_shadow(const TicketState& ticket) {
  if (!options.check_shadow) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const Table& table = at(ticket.table);
  const uint32_t bytes = table.layout.record_bytes();
  std::vector<std::byte> first(bytes), space;
  for (size_t u = 0; u < ticket.slots.size(); ++u) {
    if (ticket.slots[u] == kNoSlot) {
      continue;
    }
    const Id id = ticket.batch.unique[u];
    const auto known = table.shadow.find(id);
    const std::byte* expected = nullptr;
    if (known != table.shadow.end()) {
      expected = known->second.data();
    } else {
      table.layout.initialise(table.seed, id, first.data());
      expected = first.data();
    }
    expected = table.past.caught_up(expected, space);
    const auto [a, b] = std::mismatch(expected, expected + bytes, ticket.records[u]);
    check(a == expected + bytes,
          "embedding_cache: shadow check: table \"{}\", id {}, step {}: byte {} of the record "
          "differs from the flat table",
          table.options.name, id, ticket.step, a - expected);
  }
}

}  // namespace mstrain::embedding_cache
