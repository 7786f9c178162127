// Life of a cache: opening, waiting, failing, closing; and the small calls.
#include "embedding_cache/core.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/wait.h"
#include "core/io/digest.h"

namespace mstrain::embedding_cache {
namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace

Table::Table(const TableOptions& table_options, uint64_t cache_seed)
    : options(table_options),
      layout(table_options),
      seed(table_seed(cache_seed, table_options.name)),
      host(table_options.host_rows, layout.record_bytes(), table_options.policy),
      past(layout),
      admission(table_options.admission, seed,
                table_options.admission.window_steps != 0 ? table_options.admission.window_steps
                                                          : table_options.eviction.ttl_steps),
      zeros(layout.record_bytes()) {}

Core::Core(const Options& given) : options(given) {
  check_options(options);
  files = options.files == nullptr ? &real_files() : options.files;
  for (const TableOptions& table : options.tables) {
    tables.push_back(std::make_unique<Table>(table, options.seed));
    host_.add_table(tables.back()->host);
    context_.record_bytes.push_back(tables.back()->layout.record_bytes());
  }
  workers_ = std::make_unique<ThreadPool>(options.threads - 1);
  readers_ = std::make_unique<ThreadPool>(options.store.read_threads);
  writer_ = std::make_unique<ThreadPool>(1);
  context_.options = options.store;
  context_.files = files;
  context_.workers = readers_.get();
  write_back_.reset(context_.record_bytes, options.store.write_back_rows,
                    write_back_bytes(options.store) / 8);
}

Core::~Core() { close(); }

void Core::close() {
  {
    Lock lock(mutex_);
    if (closed_) {
      return;
    }
    // A commit that was started is ended, unless the cache has failed.
    if (pending_ != nullptr) {
      const bool ended = wait_for(lock, [this] { return pending_->done || !failure_.empty(); });
      if (!ended) {
        log_warning(
            "embedding_cache: closing gives up commit {} of step {}, which has got nowhere for {} "
            "s",
            pending_->info.id, pending_->info.step, options.wait_seconds);
      } else if (pending_->error) {
        log_warning("embedding_cache: commit {} failed, and nobody asked for it: {}",
                    pending_->info.id, message_of(pending_->error));
      }
    }
    closed_ = true;
    if (failure_.empty()) {
      failure_ = "the cache was closed";
    }
  }
  changed_.notify_all();
  stop_sweep();
  sweeper_.reset();
  writer_.reset();
  readers_.reset();
  store_.reset();
  workers_.reset();
  lock_file_.reset();
}

Table& Core::at(uint32_t table) {
  check(table < tables.size(), "embedding_cache: table {} of {}", table, tables.size());
  return *tables[table];
}

void Core::require_healthy() const {
  if (!failure_.empty()) [[unlikely]] {
    if (failure_error_) {
      std::rethrow_exception(failure_error_);
    }
    throw Error("embedding_cache: " + failure_);
  }
}

void Core::poison(const std::string& message, std::exception_ptr error) {
  if (failure_.empty()) {
    failure_ = message;
    failure_error_ = std::move(error);
  }
  changed_.notify_all();
}

bool Core::wait_for(Lock& lock, const std::function<bool()>& done) {
  for (;;) {
    const uint64_t before = store_->progress();
    if (wait_with_deadline(changed_, lock, options.wait_seconds, done)) {
      return true;
    }
    if (store_->progress() == before) {
      return false;
    }
  }
}

void Core::wait_until(Lock& lock, const std::function<bool()>& done, const std::string& what) {
  const bool in_time = wait_for(lock, [&] { return done() || !failure_.empty(); });
  require_healthy();
  check(in_time,
        "embedding_cache: {} is late by {} s: {} fetches and {} bytes of writes are under way",
        what, options.wait_seconds, fetches_.size(), write_back_.bytes());
}

void Core::require_no_tickets(const char* call) {
  if (!dropped_.empty()) {
    throw Error(std::exchange(dropped_, {}));
  }
  if (open_tickets_ > 0) {
    std::string steps;
    for (const auto& table : tables) {
      for (const TicketState* ticket : table->training) {
        steps += fmt::format(" step {} of table \"{}\"", ticket->step, table->options.name);
      }
    }
    fail("embedding_cache: {}: {} tickets are open; release them first{}{}", call, open_tickets_,
         steps.empty() ? "" : "; not updated yet:", steps);
  }
}

Core::Quiet::Quiet(Core& core, Lock& lock, const char* call) : core_(core), lock_(lock) {
  core.require_healthy();
  check(!core.quiet_ || core.quiet_thread_ != std::this_thread::get_id(),
        "embedding_cache: {} from inside a scan's visitor", call);
  core.wait_until(
      lock, [&] { return !core.quiet_; }, call);
  core.require_no_tickets(call);
  core.quiet_ = true;
  core.quiet_thread_ = std::this_thread::get_id();
  try {
    core.wait_until(
        lock, [&] { return core.fetches_.empty(); }, call);
  } catch (...) {
    core.quiet_ = false;
    throw;
  }
}

Core::Quiet::~Quiet() {
  if (!lock_.owns_lock()) {
    lock_.lock();
  }
  core_.quiet_ = false;
  core_.changed_.notify_all();
}

void Core::check_ticket(const TicketState& ticket, const char* call) const {
  check(ticket.core.get() == this, "embedding_cache: {}: the ticket belongs to another cache",
        call);
}

void Core::announce(uint32_t index, std::span<const Id> ids) {
  Table& table = at(index);
  const std::lock_guard lock(mutex_);
  require_healthy();
  LookAhead::Entry entry;
  entry.hash = hash_bytes(std::as_bytes(ids));
  table.dedup.run(ids, entry.batch);
  table.gave_back = table.gave_back && table.window.size() > 0;
  const uint64_t number = table.host.now() + 1 + table.window.size();
  check(table.window.size() < 4096, "embedding_cache: more than 4096 batches are announced");
  std::vector<Slot> slots(entry.batch.unique.size());
  table.host.find(entry.batch.unique, slots.data());
  table.window.push(std::move(entry), number, [&](size_t u) {
    if (slots[u] != kNoSlot) {
      table.host.expect(slots[u], number);
    }
  });
}

void Core::release(TicketState& ticket) {
  check_ticket(ticket, "release");
  const std::lock_guard lock(mutex_);
  unpin_all(ticket);
}

void Core::unpin_all(TicketState& ticket) {
  Table& table = at(ticket.table);
  for (const Slot slot : ticket.slots) {
    if (slot != kNoSlot) {
      table.host.unpin(slot);
    }
  }
  if (std::erase(table.training, &ticket) > 0 &&
      table.options.admission.kind == AdmissionKind::kNone) {  // which has counted the batch
    const uint64_t open = table.training.empty() ? 0 : table.training.back()->step;
    table.last_step = std::max(table.learned_step, open);
    table.gave_back = true;
  }
  if (!ticket.waited && !fetches_.empty() && fetches_.begin()->first <= ticket.needs_fetch) {
    unawaited_ = std::max(unawaited_, ticket.needs_fetch);
  }
  --open_tickets_;
  changed_.notify_all();
}

void Core::note_learned(Table& table, TicketState& ticket) {
  ticket.updated = true;
  std::erase(table.training, &ticket);
  table.learned_step = std::max(table.learned_step, ticket.step);
}

void Core::drop(TicketState& ticket, bool unwinding) noexcept {
  const std::lock_guard lock(mutex_);
  if (!unwinding && ticket.use == Use::kTrain && !ticket.updated && !closed_) {
    dropped_ = fmt::format(
        "embedding_cache: a ticket of table \"{}\", step {}, was dropped without update or "
        "release: "
        "that batch was not learned; release() gives a batch back",
        at(ticket.table).options.name, ticket.step);
  }
  unpin_all(ticket);
}

void Core::scan(uint32_t index, const RowVisitor& visit) {
  at(index);
  Lock lock(mutex_);
  const Quiet quiet(*this, lock, "scan");
  flush_dirty(lock);
  lock.unlock();  // the visitor may ask for what does not change
  std::vector<std::byte> space;
  store_->scan(index, [&](Id id, const std::byte* record) {
    visit(id, at(index).past.caught_up(record, space));
  });
}

void Core::go_through(uint32_t index, std::span<const PastStep> steps) {
  Table& table = at(index);
  Lock lock(mutex_);
  const Quiet quiet(*this, lock, "go_through");
  table.past.add(steps);
}

void Core::require_batches_alone(const char* call) const {
  for (const auto& table : tables) {
    check(
        !table->layout.learns_always(),
        "embedding_cache: {}: all rows of table \"{}\" learn at every step (optimizer.l2_of: "
        "table), those that are in no file too; commits can be copied as they are, and weights are "
        "read by a Reader or scan",
        call, table->options.name);
  }
}

std::string Core::digest() {
  Lock lock(mutex_);
  const Quiet quiet(*this, lock, "digest");
  flush_dirty(lock);
  lock.unlock();
  Sha256 sha;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const Table& table = *tables[t];
    sha.add(as_bytes(table.options.name)).add(as_bytes(table.layout.schema()));
    std::vector<std::byte> space;
    store_->scan(t, [&](Id id, const std::byte* record) {
      sha.add(std::as_bytes(std::span(&id, 1)));
      sha.add({table.past.caught_up(record, space), table.layout.record_bytes()});
    });
    const std::string filter = table.admission.save();
    sha.add(as_bytes(filter));
  }
  return sha.finish_hex();
}

Stats Core::stats() {
  const std::lock_guard lock(mutex_);
  Stats out = times_;
  for (const auto& table : tables) {
    TableStats stats = table->stats;
    stats.name = table->options.name;
    stats.rows = table->rows;
    stats.host_rows = table->host.used();
    stats.host_capacity = table->host.capacity();
    stats.pinned_rows = table->host.pinned();
    stats.record_bytes = table->layout.record_bytes();
    stats.overhead_bytes = table->host.overhead_bytes();
    stats.tombstones = table->tombstones.size();
    stats.filter_ids = table->admission.size();
    out.tables.push_back(stats);
  }
  if (store_) {
    out.store_name = store_->name();
    out.store = store_->stats();
  }
  out.open_tickets = open_tickets_;
  out.write_back_bytes = write_back_.bytes();
  return out;
}

// ---- the writer -----------------------------------------------------------------------------

void Core::start_writer() {
  const bool commits = pending_ != nullptr && !pending_->done;
  if (!writer_running_ && (write_back_.has_sealed() || commits)) {
    writer_running_ = true;
    writer_->submit([this] { run_writer(); });
  }
}

// Rows in the order in which they left; a commit after those that left before it, and before those that did later.
void Core::run_writer() {
  Lock lock(mutex_);
  while (failure_.empty()) {
    if (write_back_.has_sealed()) {
      const std::vector<RowWrite> rows = write_back_.take();
      lock.unlock();
      std::exception_ptr error;
      try {
        write_through(below(), rows);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error) {
        poison(message_of(error), error);
        break;
      }
      write_back_.confirm();
      changed_.notify_all();
    } else if (pending_ != nullptr && !pending_->done) {
      lock.unlock();
      run_pending();
      lock.lock();
      changed_.notify_all();
    } else {
      break;
    }
  }
  writer_running_ = false;
  changed_.notify_all();
}

void Core::write_out(Lock& lock) {
  write_back_.seal();
  start_writer();
  wait_until(
      lock, [this] { return write_back_.empty() && !writer_running_; }, "writing rows back");
}

void Core::flush_dirty(Lock& lock) {
  write_out(lock);
  std::vector<RowWrite> rows;
  host_.each_dirty([&](uint32_t t, Slot slot) {
    rows.push_back({t, tables[t]->host.id(slot), tables[t]->host.record(slot)});
  });
  std::sort(rows.begin(), rows.end(), [](const RowWrite& a, const RowWrite& b) {
    return a.table != b.table ? a.table < b.table : a.id < b.id;
  });
  write_to(below(), rows);
  for (const auto& table : tables) {
    table->host.each([&](Slot slot) { table->host.set_dirty(slot, false); });
  }
}

void Core::write_to(std::span<Tier* const> tiers, std::span<const RowWrite> rows) {
  try {
    write_through(tiers, rows);
  } catch (...) {
    poison(message_of(std::current_exception()), std::current_exception());
    throw;
  }
}

}  // namespace mstrain::embedding_cache
