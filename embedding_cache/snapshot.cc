#include "embedding_cache/snapshot.h"

#include <algorithm>
#include <cstring>

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kSnapshotRows = 1024;

}  // namespace

Snapshot::Snapshot(std::vector<uint32_t> record_bytes) : saved_(record_bytes.size()) {
  for (size_t t = 0; t < record_bytes.size(); ++t) {
    saved_[t].record_bytes = record_bytes[t];
  }
}

void Snapshot::sort() {
  std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return a.table != b.table ? a.table < b.table : a.id < b.id;
  });
}

std::byte* Snapshot::Saved::record(uint64_t number) const {
  return chunks[number / kSnapshotRows].get() + number % kSnapshotRows * record_bytes;
}

void Snapshot::save(uint32_t table, Id id, const std::byte* record) {
  Saved& saved = saved_[table];
  const uint64_t number = saved.numbers.size();
  if (number % kSnapshotRows == 0) {
    saved.chunks.push_back(
        std::make_unique_for_overwrite<std::byte[]>(kSnapshotRows * saved.record_bytes));
  }
  std::memcpy(saved.record(number), record, saved.record_bytes);
  saved.numbers.set(id, number);
}

const std::byte* Snapshot::find(uint32_t table, Id id) const {
  const uint64_t number = saved_[table].numbers.find(id);
  return number == IdMap::kNone ? nullptr : saved_[table].record(number);
}

void Snapshot::forget_saved() {
  for (Saved& saved : saved_) {
    saved.numbers.clear();
    saved.chunks.clear();
  }
}

}  // namespace mstrain::embedding_cache
