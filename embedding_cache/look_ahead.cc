#include "embedding_cache/look_ahead.h"

namespace mstrain::embedding_cache {

LookAhead::Entry LookAhead::pop() {
  Entry entry = std::move(window_.front());
  window_.pop_front();
  for (size_t u = 0; u < entry.next.size(); ++u) {
    if (entry.next[u] == 0) {
      last_use_.erase(entry.batch.unique[u]);
    }
  }
  ++first_;
  return entry;
}

}  // namespace mstrain::embedding_cache
