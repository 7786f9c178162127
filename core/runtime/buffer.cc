#include "core/runtime/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kLargeBlock = int64_t{4} << 20;
constexpr int64_t kPage = int64_t{4} << 10;
constexpr int64_t kHugePage = int64_t{2} << 20;

void* system_allocate(int64_t bytes) {
  const bool large = bytes >= kLargeBlock;
  void* data = nullptr;
  const int error = posix_memalign(&data, static_cast<size_t>(large ? kHugePage : kAlignment),
                                   static_cast<size_t>(bytes));
  check(error == 0, "out of memory: {} bytes could not be allocated", bytes);
  if (large) {
    // A hint: failure changes nothing but speed. A huge page that the block fills in part only would cost memory.
    madvise(data, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  }
  return data;
}

}  // namespace

struct Allocator::State {
  mutable std::mutex mutex;
  using Free = std::multimap<int64_t, void*>;
  Free free;  // by size
  std::vector<Free::node_type>
      spare;  // of blocks in use, so that giving them back allocates nothing
  int64_t cache_limit = 0;
  MemoryStats stats;

  void trim_to(int64_t limit) {
    while (stats.cached_bytes > limit && !free.empty()) {
      const auto largest = std::prev(free.end());
      stats.cached_bytes -= largest->first;
      std::free(largest->second);
      free.erase(largest);
    }
  }
};

Allocator::Allocator(int64_t cache_limit) : state_(std::make_unique<State>()) {
  state_->cache_limit = cache_limit;
}

Allocator::~Allocator() { state_->trim_to(0); }

int64_t Allocator::rounded(int64_t bytes) {
  const int64_t unit = bytes >= kLargeBlock ? kPage : kAlignment;
  return std::max(unit, (bytes + unit - 1) / unit * unit);
}

void* Allocator::allocate(int64_t bytes) {
  bytes = rounded(bytes);
  const std::lock_guard lock(state_->mutex);
  void* data = nullptr;
  // Blocks are reused at their exact (rounded) size, so that release() knows what it got.
  if (const auto found = state_->free.find(bytes); found != state_->free.end()) {
    data = found->second;
    state_->stats.cached_bytes -= bytes;
    state_->spare.push_back(state_->free.extract(found));
  } else {
    data = system_allocate(bytes);
  }
  ++state_->stats.allocations;
  state_->stats.live_bytes += bytes;
  state_->stats.peak_bytes = std::max(state_->stats.peak_bytes, state_->stats.live_bytes);
  return data;
}

void Allocator::release(void* data, int64_t bytes) {
  bytes = rounded(bytes);
  const std::lock_guard lock(state_->mutex);
  state_->stats.live_bytes -= bytes;
  state_->stats.cached_bytes += bytes;
  if (state_->spare.empty()) {
    state_->free.emplace(bytes, data);
  } else {
    State::Free::node_type node = std::move(state_->spare.back());
    state_->spare.pop_back();
    node.key() = bytes;
    node.mapped() = data;
    state_->free.insert(std::move(node));
  }
  state_->trim_to(state_->cache_limit);
}

void Allocator::trim() {
  const std::lock_guard lock(state_->mutex);
  state_->trim_to(0);
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

Buffer Buffer::allocate(std::shared_ptr<Allocator> allocator, int64_t bytes) {
  Buffer buffer;
  buffer.data_ = static_cast<std::byte*>(allocator->allocate(bytes));
  buffer.bytes_ = bytes;
  buffer.block_ = std::shared_ptr<const void>(
      buffer.data_, [allocator = std::move(allocator), bytes](const void* data) {
        allocator->release(const_cast<void*>(data), bytes);
      });
  return buffer;
}

}  // namespace mstrain
