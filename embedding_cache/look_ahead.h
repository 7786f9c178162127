// The batches that will be prefetched next, told in advance: for each id of a batch, in which later batch it occurs again.
// That is what eviction by next use (Belady 1966) needs. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "embedding_cache/dedup.h"
#include "embedding_cache/id_map.h"

namespace mstrain::embedding_cache {

class LookAhead {
 public:
  struct Entry {
    Batch batch;
    Hash128 hash;  // of the ids as given
    std::vector<uint64_t>
        next;  // per distinct id: the batch that uses it next, 0 where none is known
  };

  size_t size() const { return window_.size(); }
  const Entry& front() const { return window_.front(); }
  // A batch of these ids; null: there is none.
  const Entry* find(const Hash128& hash) const {
    const auto found = std::find_if(window_.begin(), window_.end(),
                                    [&](const Entry& entry) { return entry.hash == hash; });
    return found == window_.end() ? nullptr : &*found;
  }
  // Adds a batch behind the others; its number is `number`, one higher than the one before.
  // `first_use(u)` is called for each distinct id that no batch of the window has yet.
  template <class F>
  void push(Entry entry, uint64_t number, F&& first_use) {
    const size_t count = entry.batch.unique.size();
    entry.next.assign(count, 0);
    if (window_.empty()) {
      first_ = number;
    }
    for (size_t u = 0; u < count; ++u) {
      const uint64_t here = number << 32 | u;
      uint64_t& last = last_use_.at(entry.batch.unique[u], kNew);
      if (last == kNew) {
        first_use(u);
      } else {
        window_[(last >> 32) - first_].next[last & 0xffffffffU] = number;
      }
      last = here;
    }
    window_.push_back(std::move(entry));
  }
  Entry pop();

 private:
  static constexpr uint64_t kNew = IdMap::kNone - 1;
  std::deque<Entry> window_;
  uint64_t first_ = 0;  // number of the front
  IdMap last_use_;      // id -> number << 32 | index, of its last batch in the window
};

}  // namespace mstrain::embedding_cache
