// Writing commits, at once or while training goes on.
#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/log.h"
#include "embedding_cache/core.h"
#include "embedding_cache/stopwatch.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kCopyRows = 512;  // of a commit under way, copied in one hold of the mutex

StoreFile write_file(FileSystem& files, const std::string& folder, const std::string& name,
                     std::string_view content) {
  const auto file = files.open(join_path(folder, name), WriteMode::kTruncate);
  file->append(content);
  file->sync();
  file->close();
  return summarise_store_file(files, folder, name);
}

TableState state_of(uint64_t rows, uint64_t last_step, std::string admission,
                    const IdMap& tombstones, std::vector<PastStep> past) {
  TableState state{.rows = rows,
                   .last_step = last_step,
                   .admission = std::move(admission),
                   .tombstones = {},
                   .past = std::move(past)};
  tombstones.each([&](Id id, uint64_t step) { state.tombstones.emplace_back(id, step); });
  std::sort(state.tombstones.begin(), state.tombstones.end());
  return state;
}

}  // namespace

CommitId Core::last_commit() const {
  const std::lock_guard lock(mutex_);
  return committed_;
}
uint64_t Core::last_step() const {
  const std::lock_guard lock(mutex_);
  return committed_step_;
}

CommitInfo Core::begin_commit(uint64_t step) {
  check(step <= 0xffffffffU && step >= barrier_step_,
        "embedding_cache: commit of step {} after commit {} of step {}", step, committed_,
        barrier_step_);
  CommitInfo info{.id = newest_ + 1,
                  .parent = committed_,
                  .step = step,
                  .seed = options.seed,
                  .store = store_->name(),
                  .options = print_options(options),
                  .abandoned = abandoned_,
                  .taken = taken_};
  for (const auto& table : tables) {
    check(table->learned_step <= step,
          "embedding_cache: commit of step {}, but table \"{}\" has learned step {}", step,
          table->options.name, table->learned_step);
    check(table->last_step <= step,
          "embedding_cache: commit of step {}, but table \"{}\" has counted the ids of step {} for "
          "admission, which did not learn; commit step {}, or open again from the last commit",
          step, table->options.name, table->last_step, table->last_step);
    info.tables.push_back({table->options.name, table->layout.schema(), table->rows});
  }
  return info;
}

// The store holds the rows of the commit and no later ones.
void Core::write_commit(CommitInfo& info, const std::vector<TableState>& states,
                        std::string_view blob) {
  const std::string folder = commit_folder(options.directory, info.id);
  try {
    files->remove_all(folder);
    files->create_directories(folder);
    info.files = store_->checkpoint(join_path(folder, "rows"));
    for (StoreFile& file : info.files) {
      file.name = "rows/" + file.name;
    }
    info.files.push_back(write_file(*files, folder, kStateFile, print_state(states)));
    info.files.push_back(write_file(*files, folder, kUserFile, blob));
    write_manifest(*files, options.directory, info);
  } catch (...) {
    try {
      remove_commit(*files, options.directory, info.id);
    } catch (const IoError&) {
      // The first error is the one to report; opening removes folders without a manifest.
    }
    throw;
  }
}

void Core::add_commit(const CommitInfo& info) {
  newest_ = info.id;
  committed_ = info.id;
  committed_step_ = info.step;
  is_replaced_ = false;
  kept_[info.id] = info.step;
}

CommitId Core::prepare(uint64_t step, std::span<const std::byte> blob) {
  Lock lock(mutex_);
  const Stopwatch watch(times_.commit_seconds);
  check(!options.directory.empty(), "embedding_cache: a commit needs options.directory");
  const Quiet quiet(*this, lock, "commit");
  settle(lock);
  CommitInfo info = begin_commit(step);
  flush_dirty(lock);
  std::vector<TableState> states;
  for (const auto& table : tables) {
    states.push_back(state_of(table->rows, table->last_step, table->admission.save(),
                              *table->tombstones.view(), table->past.steps()));
  }
  write_commit(info, states, as_text(blob));
  barrier_step_ = step;
  add_commit(info);
  return info.id;
}

CommitId Core::start_commit(uint64_t step, std::span<const std::byte> blob) {
  Lock lock(mutex_);
  const Stopwatch watch(times_.commit_seconds);
  check(!options.directory.empty(), "embedding_cache: a commit needs options.directory");
  const Quiet quiet(*this, lock, "commit");
  settle(lock);
  auto pending =
      std::make_unique<PendingCommit>(PendingCommit{.info = begin_commit(step),
                                                    .user_blob = std::string(as_text(blob)),
                                                    .rows = Snapshot(context_.record_bytes)});
  pending->tables.reserve(tables.size());
  host_.each_dirty([&](uint32_t t, Slot slot) {
    pending->rows.add({t, slot, tables[t]->host.id(slot)});
  });
  // From here on nothing fails.
  for (const Snapshot::Row& row : pending->rows.rows()) {
    tables[row.table]->host.set_dirty(row.slot, false);
    tables[row.table]->host.set_frozen(row.slot, true);
  }
  for (const auto& table : tables) {
    pending->tables.push_back({table->rows, table->last_step, table->admission.freeze(),
                               table->tombstones.freeze(), table->past.steps()});
  }
  write_back_.hold();
  barrier_step_ = step;
  pending_ = std::move(pending);
  start_writer();
  return pending_->info.id;
}

void Core::save_frozen(uint32_t index, std::span<const Slot> slots) {
  if (pending_ == nullptr || pending_->in_store) {
    return;
  }
  HostSlots& host = tables[index]->host;
  for (const Slot slot : slots) {
    if (slot != kNoSlot && host.is_frozen(slot)) {
      pending_->rows.save(index, host.id(slot), host.record(slot));
      host.set_frozen(slot, false);
    }
  }
}

void Core::run_pending() {
  std::exception_ptr error;
  try {
    write_pending();
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  try {
    thaw_tables();
    if (error && !pending_->in_store) {
      undo_pending();
    }
  } catch (...) {
    poison("want of memory at the end of a commit", std::current_exception());
  }
  pending_->error = error;
  pending_->done = true;
  if (!error) {
    add_commit(pending_->info);
  }
  write_back_.let_go();
}

void Core::write_pending() {
  PendingCommit& pending = *pending_;
  pending.rows.sort();
  const std::span<const Snapshot::Row> rows = pending.rows.rows();
  const uint64_t slice_bytes = write_back_bytes(options.store);
  std::unique_ptr<std::byte[]> space;
  for (size_t begin = 0; begin < rows.size();) {
    uint64_t bytes = 0;
    size_t end = begin;
    while (end < rows.size() && (end == begin || bytes < slice_bytes)) {
      bytes += context_.record_bytes[rows[end++].table];
    }
    if (space == nullptr) {  // no slice is larger than the first one by more than a row
      space = std::make_unique_for_overwrite<std::byte[]>(bytes + (1 << 20));
    }
    store_pending_rows(rows.subspan(begin, end - begin), space.get());
    begin = end;
  }
  space.reset();
  {
    const std::lock_guard lock(mutex_);
    pending.in_store = true;
    pending.rows.forget_saved();
  }
  std::vector<TableState> states;
  for (const PendingCommit::TableView& table : pending.tables) {
    states.push_back(state_of(table.rows, table.last_step, table.admission.save(),
                              *table.tombstones, table.past));
  }
  write_commit(pending.info, states, pending.user_blob);
}

void Core::thaw_tables() {
  pending_->tables.clear();
  for (const auto& table : tables) {
    table->admission.thaw();
    table->tombstones.thaw();
  }
}

// The store does not have all rows of a commit that failed: they count as changed again, so that the next one has them.
void Core::undo_pending() {
  for (const Snapshot::Row& row : pending_->rows.rows()) {
    HostSlots& host = tables[row.table]->host;
    Slot slot = kNoSlot;
    host.find(std::span(&row.id, 1), &slot);
    if (slot != kNoSlot) {
      host.set_frozen(slot, false);
      host.set_dirty(slot, true);
    } else if (write_back_.find(row.table, row.id) == nullptr) {
      const std::byte* saved = pending_->rows.find(row.table, row.id);
      if (saved != nullptr) {  // else the store has it
        write_back_.add(row.table, row.id, saved);
      }
    }
  }
  pending_->rows.forget_saved();
}

// Copies the rows as they were when the commit was started, and writes them. They stay frozen until the store has them: one that leaves
// host memory meanwhile must be found.
void Core::store_pending_rows(std::span<const Snapshot::Row> rows, std::byte* space) {
  std::vector<RowWrite> writes;
  writes.reserve(rows.size());
  const auto is_here = [this](const Snapshot::Row& row) {
    const HostSlots& host = tables[row.table]->host;
    return host.is_frozen(row.slot) && host.id(row.slot) == row.id;
  };
  for (size_t begin = 0; begin < rows.size(); begin += kCopyRows) {
    const std::lock_guard lock(mutex_);
    require_healthy();
    for (const Snapshot::Row& row : rows.subspan(begin, std::min(kCopyRows, rows.size() - begin))) {
      const std::byte* record = is_here(row) ? tables[row.table]->host.record(row.slot)
                                             : pending_->rows.find(row.table, row.id);
      const uint32_t bytes = context_.record_bytes[row.table];
      std::memcpy(space, record, bytes);
      writes.push_back({row.table, row.id, space});
      space += bytes;
    }
  }
  try {
    write_through(below(), writes);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    poison("writing the rows of a commit failed", std::current_exception());
    throw;
  }
  const std::lock_guard lock(mutex_);
  for (const Snapshot::Row& row : rows) {
    if (is_here(row)) {
      tables[row.table]->host.set_frozen(row.slot, false);
    }
  }
}

void Core::settle(Lock& lock) {
  if (pending_ == nullptr) {
    return;
  }
  const CommitId id = pending_->info.id;
  const auto is_settled = [&] { return pending_ == nullptr || pending_->info.id != id; };
  wait_until(
      lock, [&] { return is_settled() || pending_->done; }, fmt::format("commit {}", id));
  if (is_settled()) {
    return;  // by another thread
  }
  const std::unique_ptr<PendingCommit> ended = std::move(pending_);
  if (ended->error) {
    std::rethrow_exception(ended->error);
  }
}

void Core::wait_commit(CommitId id) {
  Lock lock(mutex_);
  const Stopwatch watch(times_.commit_seconds);
  require_healthy();
  if (pending_ != nullptr && pending_->info.id == id) {
    settle(lock);
  }
  check(kept_.contains(id), "embedding_cache: there is no commit {}", id);
}

void Core::commit(CommitId id, std::optional<std::span<const CommitId>> needed) {
  Lock lock(mutex_);
  require_healthy();
  if (pending_ != nullptr && pending_->info.id == id) {
    settle(lock);
  }
  check(kept_.contains(id), "embedding_cache: there is no prepared commit {}", id);
  // Where removing fails, the commits are intact all the same and are removed next time.
  const auto remove = [&](CommitId old) {
    try {
      retract_commit(*files, options.directory, old);
    } catch (const IoError& error) {
      log_warning("{}; commit {} could not be removed", error.what(), old);
      return false;
    }
    readers_->submit([this, old] {  // freeing gigabytes takes the file system a while
      try {
        remove_commit(*files, options.directory, old);
      } catch (const IoError& error) {
        log_warning("{}; opening the directory again removes what is left of commit {}",
                    error.what(), old);
      }
    });
    return true;
  };
  const auto is_needed = [&](CommitId each) {
    return needed && std::find(needed->begin(), needed->end(), each) != needed->end();
  };
  for (const auto& [each, step] : abandoned_) {
    if (!is_needed(each) && has_manifest(*files, options.directory, each)) {
      remove(each);
    }
  }
  std::vector<CommitId> old;  // ascending
  for (auto each = kept_.begin(); each->first != id; ++each) {
    old.push_back(each->first);
  }
  if (needed) {
    std::erase_if(old, is_needed);
  } else {
    const auto others = static_cast<size_t>(options.keep) - 1;
    old.resize(old.size() - std::min(others, old.size()));
  }
  for (const CommitId each : old) {
    if (!remove(each)) {
      break;
    }
    kept_.erase(each);
  }
  prune_tombstones();
}

// No delta since a commit that is left tells what was forgotten before the oldest of them.
void Core::prune_tombstones() {
  const uint64_t oldest = kept_.begin()->second;
  for (const auto& table : tables) {
    SharedIdMap& tombstones = table->tombstones;
    bool any = false;
    tombstones.each([&](Id, uint64_t step) { any = any || step <= oldest; });
    if (!any || tombstones.is_frozen()) {  // then with the next commit
      continue;
    }
    SharedIdMap left;
    tombstones.each([&](Id id, uint64_t step) {
      if (step > oldest) {
        left.set(id, step);
      }
    });
    tombstones = std::move(left);
  }
}

}  // namespace mstrain::embedding_cache
