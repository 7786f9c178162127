#include "embedding_cache/write_back.h"

#include <algorithm>
#include <cstring>

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kChunkBytes = 256 << 10;

}  // namespace

void WriteBack::reset(std::vector<uint32_t> record_bytes, uint64_t batch_rows,
                      uint64_t batch_bytes) {
  record_bytes_ = std::move(record_bytes);
  batch_rows_ = batch_rows;
  batch_bytes_ = batch_bytes;
  newest_.assign(record_bytes_.size(), {});
}

std::byte* WriteBack::room(Batch& batch, uint64_t bytes) {
  if (batch.left < bytes) {
    const uint64_t size = std::max(bytes, std::min(kChunkBytes, batch_rows_ * bytes));
    batch.chunks.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    batch.next = batch.chunks.back().get();
    batch.left = size;
    batch.bytes += size;
    bytes_ += size;
  }
  batch.left -= bytes;
  return std::exchange(batch.next, batch.next + bytes);
}

void WriteBack::add(uint32_t table, Id id, const std::byte* record) {
  if (batches_.size() == taken_ + sealed_) {
    batches_.emplace_back();
  }
  Batch& batch = batches_.back();
  std::byte* copy = room(batch, record_bytes_[table]);
  std::memcpy(copy, record, record_bytes_[table]);
  batch.rows.push_back({table, id, copy});
  newest_[table].set(id, (first_ + batches_.size() - 1) << 32 | (batch.rows.size() - 1));
  if (batch.rows.size() == batch_rows_ || batch.bytes >= batch_bytes_) {
    seal();
  }
}

const std::byte* WriteBack::find(uint32_t table, Id id) const {
  const uint64_t at = newest_[table].find(id);
  return at == IdMap::kNone ? nullptr : batches_[(at >> 32) - first_].rows[at & 0xffffffffU].record;
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
    rows.insert(rows.end(), batches_[b].rows.begin(), batches_[b].rows.end());
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
    for (uint64_t r = 0; r < batch.rows.size(); ++r) {
      IdMap& newest = newest_[batch.rows[r].table];
      if (newest.find(batch.rows[r].id) == (first_ << 32 | r)) {
        newest.erase(batch.rows[r].id);
      }
    }
    bytes_ -= batch.bytes;
    batches_.pop_front();
  }
}

}  // namespace mstrain::embedding_cache
