#include "core/runtime/staging_memory.h"

namespace mstrain {

void* StagingMemory::allocate(int64_t bytes) {
  void* const data = allocate_(bytes);
  const std::lock_guard lock(mutex_);
  blocks_.emplace(static_cast<const std::byte*>(data), bytes);
  return data;
}

void StagingMemory::release(void* data, int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    blocks_.erase(static_cast<const std::byte*>(data));
  }
  release_(data, bytes);
}

bool StagingMemory::holds(const void* data, int64_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(first);
  if (after == blocks_.begin()) {
    return false;
  }
  const auto& [begin, size] = *std::prev(after);
  return first + bytes <= begin + size;
}

}  // namespace mstrain
