// The memory of a tree: one reserved range of addresses that is filled from the bottom and emptied at once.
// Places are 32-bit indices of 4-byte words, so a tree may hold 16 GiB; index 0 is never given out and means "nothing".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mstrain::mcts {

class Arena {
 public:
  static constexpr size_t kWord = 4;
  static constexpr uint32_t kFirst = 2;             // index of the first place
  static constexpr uint32_t kFiller = 0xffffffffU;  // what words between places hold

  // A range of places that one thread fills: indices [begin, end).
  struct Chunk {
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  // Reserves addresses for `limit` bytes, at most 16 GiB (pages are taken when first touched). Throws Error where that fails.
  explicit Arena(size_t limit, bool huge_pages = false);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;

  // A place for `words` words, not cleared, or 0 when the limit would be passed. One thread.
  uint32_t allocate(uint32_t words) {
    const uint64_t begin = used_.load(std::memory_order_relaxed);
    if (begin + words > limit_) [[unlikely]] {
      return 0;
    }
    used_.store(begin + words, std::memory_order_relaxed);
    return static_cast<uint32_t>(begin);
  }
  // A chunk of at least `words` words, larger in a larger arena; empty when the limit would be passed. Several threads may
  // open and close chunks at once; all are closed before anything else is asked of the arena.
  Chunk open(uint32_t words);
  // Gives back what is left, or fills it with kFiller where others have taken places behind it. Empties `chunk`.
  void close(Chunk& chunk);

  std::byte* at(uint32_t index) const { return base_ + index * kWord; }
  void reset() { truncate(kFirst); }
  // Gives back every word from `end` on.
  void truncate(uint32_t end) { used_.store(end, std::memory_order_relaxed); }

  uint32_t end() const { return static_cast<uint32_t>(used_.load(std::memory_order_relaxed)); }
  size_t used_bytes() const { return (end() - kFirst) * kWord; }
  size_t limit_bytes() const { return limit_ * kWord; }

 private:
  std::byte* base_ = nullptr;
  uint64_t limit_ = 0;   // in words
  size_t reserved_ = 0;  // in bytes: the limit and a tail that vector loads may touch
  std::atomic<uint64_t> used_{kFirst};
};

}  // namespace mstrain::mcts
