// Forgetting rows.
#include <algorithm>

#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kDeletesAtOnce = 65536;

uint64_t total(uint64_t own, const SumOver& sum) { return sum ? sum(own) : own; }

}  // namespace

uint64_t Core::evict(uint64_t step, const SumOver& sum) {
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
  uint64_t forgotten = 0;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const EvictionOptions& rule = tables[t]->options.eviction;
    if (rule.ttl_steps > 0 && step >= rule.ttl_steps) {
      const std::vector<ScoredRow> old = old_rows(lock, t, step - rule.ttl_steps);
      const uint64_t rows = total(tables[t]->rows, sum);
      const uint64_t most = rows > rule.min_keep_rows ? rows - rule.min_keep_rows : 0;
      const uint64_t count = std::min(total(old.size(), sum), most);
      forgotten += count == 0 ? 0 : forget_up_to(t, old, *last_of_lowest(old, count, sum));
    }
    if (rule.max_rows > 0) {
      if (const uint64_t rows = total(tables[t]->rows, sum); rows > rule.max_rows) {
        forgotten += forget_excess(lock, t, rows - rule.max_rows, sum);
      }
    }
    tables[t]->rows_kept = tables[t]->rows;
  }
  sweep_.reset();
  return forgotten;
}

std::vector<ScoredRow> Core::old_rows(Lock& lock, uint32_t index, uint64_t newest) {
  std::vector<ScoredRow> old;
  const auto look = [&](Id id, const RowHeader& header) {
    if (header.step <= newest) {
      old.push_back({header.step, id});
    }
  };
  if (const Sweep::OfTable* seen = swept(index); seen != nullptr && !sweep_->is_early) {
    std::vector<Id> ids;
    for (const ScoredRow& row : seen->old) {
      ids.push_back(row.id);
    }
    for (const KnownRow& row : known_rows(index, std::move(ids))) {
      look(row.id, row.header);  // which may have learned since it was seen
    }
  } else {
    flush_dirty(lock);
    store_->scan(index, [&](Id id, const std::byte* record) { look(id, load_header(record)); });
  }
  std::sort(old.begin(), old.end());
  return old;
}

// A row that was there and has a score below the bound of those that were seen had no higher one then, and is among them.
std::vector<ScoredRow> Core::low_rows(uint32_t index, ScoredRow& bound) {
  const Sweep::OfTable* seen = swept(index);
  if (seen == nullptr || !seen->lowest) {
    bound = {};
    return {};
  }
  bound = seen->lowest->bound();
  std::vector<Id> ids = seen->begun;
  for (const ScoredRow& row : seen->lowest->rows()) {
    ids.push_back(row.id);
  }
  std::vector<ScoredRow> low;
  for (const KnownRow& row : known_rows(index, std::move(ids))) {
    const ScoredRow now{score_of(tables[index]->options.eviction.score, row.header), row.id};
    if (now < bound) {
      low.push_back(now);
    }
  }
  std::sort(low.begin(), low.end());
  return low;
}

std::vector<ScoredRow> Core::low_rows(Lock& lock, uint32_t index, uint64_t count) {
  LowestRows lowest(count);
  flush_dirty(lock);
  store_->scan(index, [&](Id id, const std::byte* record) {
    lowest.add({score_of(tables[index]->options.eviction.score, load_header(record)), id});
  });
  std::vector<ScoredRow> low = lowest.rows();
  std::sort(low.begin(), low.end());
  return low;
}

uint64_t Core::forget_excess(Lock& lock, uint32_t index, uint64_t count, const SumOver& sum) {
  ScoredRow bound;
  std::vector<ScoredRow> low = low_rows(index, bound);
  std::optional<ScoredRow> last = last_of_lowest(low, count, sum);
  const bool lacks = !last || *last >= bound;
  if (total(lacks ? 1 : 0, sum) > 0) {
    if (lacks) {
      low = low_rows(lock, index, count);
    }
    last = last_of_lowest(low, count, sum);
  }
  return forget_up_to(index, low, *last);
}

uint64_t Core::forget_up_to(uint32_t index, std::span<const ScoredRow> rows,
                            const ScoredRow& last) {
  std::vector<Id> ids;
  for (const ScoredRow& row : rows.first(
           static_cast<size_t>(std::upper_bound(rows.begin(), rows.end(), last) - rows.begin()))) {
    ids.push_back(row.id);
  }
  std::sort(ids.begin(), ids.end());
  forget_rows(index, ids);
  return ids.size();
}

void Core::note_change(Table& table, Id id) const {
  // Later than the last commit, so that a delta since that one tells it; no later than the next one, or than the row if it comes back.
  table.tombstones.set(id, std::max(table.last_step, barrier_step_ + 1));
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
      note_change(table, id);
      table.admission.forget(id);
      table.shadow.erase(id);
    }
    table.rows -= part.size();
    table.loaded.reset();
  }
}

}  // namespace mstrain::embedding_cache
