// Forgetting rows.
#include <algorithm>
#include <shared_mutex>

#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kDeletesAtOnce = 65536;
constexpr size_t kRowsAtOnce = 65536;
constexpr Slot kSlotsAtOnce = 8192;  // looked at in one hold of the mutex

}  // namespace

uint64_t Core::evict(uint64_t step) {
  Lock lock(mutex_);
  const Quiet quiet(*this, lock, "evict");
  if (sweep_ != nullptr && sweep_->step != step) {
    stop_sweep();
  }
  if (sweep_ != nullptr) {
    wait_until(
        lock, [this] { return sweep_->done; }, "looking for rows to forget");
  }
  write_out(lock);
  uint64_t total = 0;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const EvictionOptions& rule = tables[t]->options.eviction;
    if (rule.ttl_steps == 0 || step < rule.ttl_steps) {
      continue;
    }
    std::vector<Sweep::Row> old = old_rows(lock, t, step - rule.ttl_steps);
    const uint64_t rows = tables[t]->rows;
    const uint64_t most = rows > rule.min_keep_rows ? rows - rule.min_keep_rows : 0;
    old.resize(std::min<size_t>(old.size(), most));  // the oldest go first, equals by id
    std::vector<Id> ids(old.size());
    std::transform(old.begin(), old.end(), ids.begin(), [](const auto& row) { return row.second; });
    std::sort(ids.begin(), ids.end());
    forget_rows(t, ids);
    total += ids.size();
  }
  sweep_.reset();
  return total;
}

std::vector<Sweep::Row> Core::old_rows(Lock& lock, uint32_t index, uint64_t newest) {
  std::vector<Sweep::Row> old;
  if (sweep_ == nullptr || sweep_->failed || sweep_->is_early) {
    flush_dirty(lock);
    store_->scan(index, [&](Id id, const std::byte* record) {
      if (const uint32_t last = load_header(record).step; last <= newest) {
        old.emplace_back(last, id);
      }
    });
  } else {
    std::vector<Id> ids;
    for (const auto& [last, id] : sweep_->old[index]) {
      ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (size_t begin = 0; begin < ids.size(); begin += kRowsAtOnce) {
      const size_t count = std::min(kRowsAtOnce, ids.size() - begin);
      for (const KnownRow& row : known_rows(index, std::span(ids).subspan(begin, count))) {
        if (row.step <= newest) {  // not learned since it was seen
          old.emplace_back(row.step, row.id);
        }
      }
    }
  }
  std::sort(old.begin(), old.end());
  return old;
}

void Core::start_evict(uint64_t step) {
  const std::lock_guard lock(mutex_);
  require_healthy();
  stop_sweep();
  sweep_ = std::make_shared<Sweep>();
  sweep_->step = step;
  sweep_->old.resize(tables.size());
  for (const auto& table : tables) {
    if (!table->training.empty()) {
      note_training(*table, table->training.front()->step);
    }
  }
  if (sweeper_ == nullptr) {
    sweeper_ = std::make_unique<ThreadPool>(1);
  }
  sweeper_->submit([this, own = sweep_] { sweep(*own); });
}

// A row that begins in this step may be too old when the sweep ends, and be met by none of its looks.
void Core::note_training(const Table& table, uint64_t step) {
  const uint64_t ttl = table.options.eviction.ttl_steps;
  if (sweep_ != nullptr && ttl > 0 && step + ttl <= sweep_->step) {
    sweep_->is_early = true;
  }
}

void Core::stop_sweep() {
  if (sweep_ != nullptr) {
    sweep_->is_stopped = true;
    sweep_.reset();
  }
}

void Core::sweep(Sweep& sweep) {
  bool failed = false;
  try {
    for (uint32_t t = 0; t < tables.size() && !sweep.is_stopped; ++t) {
      sweep_table(sweep, t);
    }
  } catch (const std::exception&) {
    failed = true;  // what fails here fails there, too, and is told there
  }
  const std::lock_guard lock(mutex_);
  sweep.done = true;
  sweep.failed = failed;
  changed_.notify_all();
}

// A row moves from host memory on its way out and then to the store, or is read into host memory and stays where it was: looked for in
// this order, each is met that has not learned since the sweep began.
void Core::sweep_table(Sweep& sweep, uint32_t index) {
  struct Stopped {};
  Table& table = *tables[index];
  const uint64_t ttl = table.options.eviction.ttl_steps;
  if (ttl == 0 || sweep.step < ttl) {
    return;
  }
  const uint64_t newest = sweep.step - ttl;
  std::vector<Sweep::Row>& old = sweep.old[index];
  const auto look = [&](Id id, const std::byte* record) {
    if (sweep.is_stopped) {
      throw Stopped();
    }
    const RowHeader header = load_header(record);
    if (header.updates > 0 && header.step <= newest) {
      old.emplace_back(header.step, id);
    }
  };
  try {
    bool more = true;
    for (Slot begin = 0; more; begin += kSlotsAtOnce) {
      const std::shared_lock reading(table.learning);
      const std::lock_guard lock(mutex_);
      more = table.host.each(begin, begin + kSlotsAtOnce, [&](Slot slot) {
        if (table.host.is_dirty(slot) || table.host.is_frozen(slot)) {
          look(table.host.id(slot), table.host.record(slot));
        }
      });
    }
    {
      const std::lock_guard lock(mutex_);
      write_back_.each([&](const RowWrite& row) {
        if (row.table == index && row.record != nullptr) {
          look(row.id, row.record);
        }
      });
    }
    store_->scan(index, look);
  } catch (const Stopped&) {
  }
}

// Rows that exist, ascending. None is on its way to the store.
void Core::forget_rows(uint32_t index, std::span<const Id> ids) {
  Table& table = *tables[index];
  for (size_t begin = 0; begin < ids.size(); begin += kDeletesAtOnce) {
    const auto part = ids.subspan(begin, std::min(kDeletesAtOnce, ids.size() - begin));
    std::vector<RowWrite> deletes;
    for (const Id id : part) {
      deletes.push_back({index, id, nullptr});
    }
    write_to(tiers_, deletes);
    for (const Id id : part) {
      // Later than the last commit, so that a delta since that one tells it; no later than the next one, or than the row if it comes back.
      table.tombstones.set(id, std::max(table.last_step, barrier_step_ + 1));
      table.admission.forget(id);
      table.shadow.erase(id);
    }
    table.rows -= part.size();
  }
}

}  // namespace mstrain::embedding_cache
