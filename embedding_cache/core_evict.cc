// Forgetting rows.
#include <algorithm>

#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kDeletesAtOnce = 65536;

}  // namespace

uint64_t Core::evict(uint64_t step) {
  Lock lock(mutex_);
  const Quiet quiet(*this, lock, "evict");
  flush_dirty(lock);
  uint64_t total = 0;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const EvictionOptions& rule = tables[t]->options.eviction;
    if (rule.ttl_steps == 0) {
      continue;
    }
    std::vector<std::pair<uint32_t, Id>> old;  // step, id: the oldest go first, equals by id
    store_->scan(t, [&](Id id, const std::byte* record) {
      const uint32_t last = load_header(record).step;
      if (uint64_t{last} + rule.ttl_steps <= step) {
        old.emplace_back(last, id);
      }
    });
    const uint64_t rows = tables[t]->rows;
    const uint64_t most = rows > rule.min_keep_rows ? rows - rule.min_keep_rows : 0;
    std::sort(old.begin(), old.end());
    old.resize(std::min<size_t>(old.size(), most));
    std::vector<Id> ids(old.size());
    std::transform(old.begin(), old.end(), ids.begin(), [](const auto& row) { return row.second; });
    std::sort(ids.begin(), ids.end());
    forget_rows(t, ids);
    total += ids.size();
  }
  return total;
}

// Rows that exist, ascending. The store and the host tier hold the same.
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
