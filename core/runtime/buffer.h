// Memory that tensors share, and the bounded caching allocator that it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mstrain {

// Bytes in use and high-water marks of one allocator.
struct MemoryStats {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t cached_bytes = 0;  // free, kept for reuse
  int64_t allocations = 0;   // requests served since the start, from the cache or not
};

// Allocates host memory aligned to 64 bytes (2 MiB and transparent huge pages for large blocks) and keeps freed blocks
// for requests of nearly the same size, up to `cache_limit` bytes. Thread-safe. Throws Error when memory runs out.
class Allocator {
 public:
  explicit Allocator(int64_t cache_limit = int64_t{1} << 30);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  void* allocate(int64_t bytes);
  void release(void* data, int64_t bytes);
  void trim();  // gives every cached block back to the system
  MemoryStats stats() const;

  // The size that a request of `bytes` really takes.
  static int64_t rounded(int64_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A reference-counted block of memory. Copies share it; the last one gives it back.
class Buffer {
 public:
  Buffer() = default;
  // Uninitialised memory from `allocator`, which the buffer keeps alive.
  static Buffer allocate(std::shared_ptr<Allocator> allocator, int64_t bytes);

  explicit operator bool() const { return block_ != nullptr; }
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Whether nobody else holds this memory, so that it may be written in place.
  bool unique() const { return block_.use_count() == 1; }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.data_ == b.data_; }

 private:
  std::shared_ptr<const void> block_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace mstrain
