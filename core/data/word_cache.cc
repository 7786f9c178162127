#include "core/data/word_cache.h"

#include <algorithm>

namespace mstrain {

void WordCache::insert(Slot& slot, std::string_view word, std::span<const int32_t> ids) {
  if (ids.size() > kMostIds) {
    return;
  }
  if (used_ == kSlots / 2) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    arena_.clear();
    used_ = 0;
    insert(find(word), word, ids);
    return;
  }
  ++used_;
  slot = head_of(word);
  slot.where = static_cast<uint32_t>(arena_.size());
  slot.size = static_cast<uint16_t>(word.size());
  slot.count = static_cast<uint16_t>(ids.size());
  arena_.insert(arena_.end(), ids.begin(), ids.end());
  if (word.size() > 16) {
    arena_.resize(arena_.size() + (word.size() - 16 + 3) / 4);
    std::memcpy(arena_.data() + slot.where + slot.count, word.data() + 16, word.size() - 16);
  }
}

}  // namespace mstrain
