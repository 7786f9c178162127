#include "embedding_cache/write_back.h"

#include <algorithm>
#include <cstring>

namespace mstrain::embedding_cache {

void WriteBack::reset(std::vector<uint32_t> record_bytes, uint64_t batch_rows) {
  record_bytes_ = std::move(record_bytes);
  batch_rows_ = batch_rows;
  newest_.assign(record_bytes_.size(), {});
}

void WriteBack::add(uint32_t table, Id id, const std::byte* record) {
  const size_t done = taken_ + sealed_;
  // One open batch per run of rows of the same table.
  if (batches_.size() == done || batches_.back().table != table ||
      batches_.back().rows == batch_rows_) {
    seal();
    batches_.push_back({.table = table});
    batches_.back().ids.reserve(batch_rows_);
    batches_.back().records =
        std::make_unique_for_overwrite<std::byte[]>(batch_rows_ * record_bytes_[table]);
    bytes_ += batch_rows_ * record_bytes_[table];
  }
  Batch& batch = batches_.back();
  std::memcpy(batch.records.get() + batch.rows * record_bytes_[table], record,
              record_bytes_[table]);
  batch.ids.push_back(id);
  newest_[table].set(id, (first_ + batches_.size() - 1) << 32 | batch.rows);
  if (++batch.rows == batch_rows_) {
    seal();
  }
}

const std::byte* WriteBack::find(uint32_t table, Id id) const {
  const uint64_t at = newest_[table].find(id);
  if (at == IdMap::kNone) {
    return nullptr;
  }
  const Batch& batch = batches_[(at >> 32) - first_];
  return batch.records.get() + (at & 0xffffffffU) * record_bytes_[table];
}

void WriteBack::seal() { sealed_ = batches_.size() - taken_; }

void WriteBack::hold() {
  seal();
  held_from_ = first_ + batches_.size();
}

size_t WriteBack::takable() const {
  return static_cast<size_t>(std::min(first_ + taken_ + sealed_, held_from_) - (first_ + taken_));
}

std::vector<RowWrite> WriteBack::take() {
  const size_t count = takable();
  std::vector<RowWrite> rows;
  for (size_t b = taken_; b < taken_ + count; ++b) {
    const Batch& batch = batches_[b];
    for (uint64_t r = 0; r < batch.rows; ++r) {
      rows.push_back(
          {batch.table, batch.ids[r], batch.records.get() + r * record_bytes_[batch.table]});
    }
  }
  taken_ += count;
  sealed_ -= count;
  // Stable: of equal rows the last one is the newest.
  std::stable_sort(rows.begin(), rows.end(), [](const RowWrite& a, const RowWrite& b) {
    return a.table != b.table ? a.table < b.table : a.id < b.id;
  });
  size_t kept = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool replaced =
        i + 1 < rows.size() && rows[i + 1].table == rows[i].table && rows[i + 1].id == rows[i].id;
    if (!replaced) {
      rows[kept++] = rows[i];
    }
  }
  rows.resize(kept);
  return rows;
}

void WriteBack::confirm() {
  for (; taken_ > 0; --taken_, ++first_) {
    const Batch& batch = batches_.front();
    for (uint64_t r = 0; r < batch.rows; ++r) {
      const uint64_t at = newest_[batch.table].find(batch.ids[r]);
      if (at == (first_ << 32 | r)) {
        newest_[batch.table].erase(batch.ids[r]);
      }
    }
    bytes_ -= batch_rows_ * record_bytes_[batch.table];
    batches_.pop_front();
  }
}

}  // namespace mstrain::embedding_cache
