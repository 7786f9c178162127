#include "mcts/search/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace mstrain::mcts {
namespace {

constexpr size_t kTail = 4096;

}  // namespace

Arena::Arena(size_t limit, bool huge_pages) {
  limit_ = std::min<uint64_t>(limit / kWord, UINT32_MAX);  // so that end() is an index
  reserved_ = limit + kTail;
  void* range = mmap(nullptr, reserved_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(range != MAP_FAILED, "search memory: cannot reserve {} bytes of addresses: {}", reserved_,
        std::strerror(errno));
  base_ = static_cast<std::byte*>(range);
  if (huge_pages) {
    madvise(range, reserved_, MADV_HUGEPAGE);  // a hint: a kernel without them serves small pages
  }
}

Arena::~Arena() {
  if (base_ != nullptr) {
    munmap(base_, reserved_);
  }
}

Arena::Chunk Arena::open(uint32_t words) {
  constexpr uint64_t kLargestChunk = 4096;
  constexpr uint64_t kShare = 64;  // of what is in use
  uint64_t begin = used_.load(std::memory_order_relaxed);
  uint64_t end = 0;
  do {
    end = begin + std::max<uint64_t>(words, std::min(kLargestChunk, begin / kShare));
    if (end > limit_) {
      end = begin + words;
    }
    if (end > limit_) {
      return {};
    }
  } while (!used_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

void Arena::close(Chunk& chunk) {
  const auto [begin, end] = std::exchange(chunk, {});
  uint64_t expected = end;
  if (begin == end || used_.compare_exchange_strong(expected, begin, std::memory_order_relaxed)) {
    return;
  }
  std::memset(at(begin), 0xff, size_t{end - begin} * kWord);
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      limit_(other.limit_),
      reserved_(other.reserved_),
      used_(other.used_.load(std::memory_order_relaxed)) {}

}  // namespace mstrain::mcts
