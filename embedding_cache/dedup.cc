#include "embedding_cache/dedup.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kAhead =
    16;  // loads in flight; more than the memory's latency needs gains nothing

// Cheaper than hash_mix and good enough for linear probing at half load.
inline uint64_t spread(Id id) {
  const uint64_t x = id * 0x9e3779b97f4a7c15U;
  return x ^ (x >> 29);
}

}  // namespace

void Dedup::grow(const Batch& batch) {
  const size_t size = std::max<size_t>(4096, cells_.size() * 2);
  cells_.assign(size, Cell{0, 0, 0});
  mask_ = size - 1;
  round_ = 1;
  for (size_t i = 0; i < batch.unique.size(); ++i) {
    uint64_t at = spread(batch.unique[i]) & mask_;
    while (cells_[at].round == round_) {
      at = (at + 1) & mask_;
    }
    cells_[at] = {batch.unique[i], static_cast<uint32_t>(i), round_};
  }
}

void Dedup::run(std::span<const Id> ids, Batch& out) {
  check(ids.size() <= (size_t{1} << 31), "embedding_cache: a batch of {} ids; at most 2^31",
        ids.size());
  out.unique.clear();
  out.inverse.resize(ids.size());
  if (cells_.empty() || ++round_ == 0) {
    cells_.clear();
    grow(out);
  }
  uint32_t* inverse = out.inverse.data();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) {
      __builtin_prefetch(&cells_[spread(ids[i + kAhead]) & mask_]);
    }
    const Id id = ids[i];
    uint64_t at = spread(id) & mask_;
    for (;;) {
      Cell& cell = cells_[at];
      if (cell.round != round_) {
        cell = {id, static_cast<uint32_t>(out.unique.size()), round_};
        inverse[i] = cell.index;
        out.unique.push_back(id);
        if (out.unique.size() * 2 > cells_.size()) {
          grow(out);
        }
        break;
      }
      if (cell.id == id) {
        inverse[i] = cell.index;
        break;
      }
      at = (at + 1) & mask_;
    }
  }
}

Positions positions_by_id(const Batch& batch) {
  Positions out;
  out.begin.assign(batch.unique.size() + 1, 0);
  for (const uint32_t u : batch.inverse) {
    ++out.begin[u + 1];
  }
  for (size_t u = 0; u < batch.unique.size(); ++u) {
    out.begin[u + 1] += out.begin[u];
  }
  out.order.resize(batch.inverse.size());
  std::vector<uint32_t> next(out.begin.begin(), out.begin.end() - 1);
  for (size_t i = 0; i < batch.inverse.size(); ++i) {
    out.order[next[batch.inverse[i]]++] = static_cast<uint32_t>(i);
  }
  return out;
}

}  // namespace mstrain::embedding_cache
