// Looking for rows to forget while training goes on.
#include <algorithm>
#include <shared_mutex>

#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {
namespace {

constexpr Slot kSlotsAtOnce = 8192;  // looked at in one hold of the mutex
constexpr uint64_t kSpareRows = 1024;

}  // namespace

void Core::start_evict(uint64_t step, const SumOver& sum) {
  auto next = std::make_shared<Sweep>();
  next->step = step;
  next->tables.resize(tables.size());
  std::vector<uint64_t> rows, begun;
  {
    const std::lock_guard lock(mutex_);
    require_healthy();
    for (const auto& table : tables) {
      rows.push_back(table->rows);
      begun.push_back(table->rows - std::min(table->rows, table->rows_kept));
    }
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    if (const uint64_t most = tables[t]->options.eviction.max_rows; most > 0) {
      const uint64_t all = sum ? sum(rows[t]) : rows[t];
      // As many as began since rows were forgotten last may begin until the next time.
      const uint64_t all_then = all + (sum ? sum(begun[t]) : begun[t]);
      if (all_then > most) {
        const double share =
            static_cast<double>(rows[t]) / static_cast<double>(std::max<uint64_t>(1, all));
        const double excess = static_cast<double>(all_then - most) * share;
        next->tables[t].lowest.emplace(static_cast<uint64_t>(1.5 * excess) + kSpareRows);
      }
    }
  }
  const std::lock_guard lock(mutex_);
  require_healthy();
  stop_sweep();
  sweep_ = std::move(next);
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

Sweep::OfTable* Core::swept(uint32_t table) {
  return sweep_ == nullptr || sweep_->failed ? nullptr : &sweep_->tables[table];
}

// A row moves from host memory on its way out and then to the store, or is read into host memory and stays where it was: looked for in
// this order, each is met that was there when the sweep began.
void Core::sweep_table(Sweep& sweep, uint32_t index) {
  struct Stopped {};
  Table& table = *tables[index];
  const EvictionOptions& rule = table.options.eviction;
  Sweep::OfTable& seen = sweep.tables[index];
  const bool looks_for_old = rule.ttl_steps > 0 && sweep.step >= rule.ttl_steps;
  if (!looks_for_old && !seen.lowest) {
    return;
  }
  const uint64_t newest = sweep.step - rule.ttl_steps;
  const auto look = [&](Id id, const std::byte* record) {
    if (sweep.is_stopped) {
      throw Stopped();
    }
    const RowHeader header = load_header(record);
    if (header.updates == 0) {
      return;
    }
    if (looks_for_old && header.step <= newest) {
      seen.old.push_back({header.step, id});
    }
    if (seen.lowest) {
      seen.lowest->add({score_of(rule.score, header), id});
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
      // Rows of a commit that have left unchanged since it was started: the store need not have them yet.
      if (pending_ != nullptr && !pending_->in_store) {
        pending_->rows.each_saved(index, look);
      }
    }
    store_->scan(index, look);
  } catch (const Stopped&) {
  }
}

}  // namespace mstrain::embedding_cache
