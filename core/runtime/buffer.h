// Memory that tensors share, and the bounded caching allocator that it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/runtime/device.h"

namespace mstrain {

// Bytes in use and high-water marks of one allocator.
struct MemoryStats {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t cached_bytes = 0;  // free, kept for reuse
  int64_t allocations = 0;   // requests served since the start, from the cache or not
};

// Allocates memory of a device, aligned to 64 bytes, and keeps freed blocks for requests of the same size, up to
// `cache_limit` bytes. Thread-safe. Throws Error when memory runs out.
class Allocator {
 public:
  static constexpr int64_t kCacheLimit = int64_t{1} << 30;

  explicit Allocator(int64_t cache_limit = kCacheLimit,
                     std::shared_ptr<Device> device = default_device());
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // On a device that runs late a block may come back, and go out again, before its uses have ended: they go with it, and
  // whoever writes it waits for them.
  void* allocate(int64_t bytes, std::vector<Event>* uses = nullptr);
  void release(void* data, int64_t bytes, std::vector<Event> uses = {});
  void trim();  // gives every cached block back to the system
  MemoryStats stats() const;
  const std::shared_ptr<Device>& device() const { return device_; }

  // The size that a request of `bytes` really takes.
  static int64_t rounded(int64_t bytes);

 private:
  struct State;
  std::shared_ptr<Device> device_;
  std::unique_ptr<State> state_;
};

// A reference-counted block of memory. Copies share it; the last one gives it back.
class Buffer {
 public:
  Buffer() = default;
  // Uninitialised memory from `allocator`, which the buffer keeps alive.
  static Buffer allocate(std::shared_ptr<Allocator> allocator, int64_t bytes);

  explicit operator bool() const { return block_ != nullptr; }
  // Where it lies on its device: for kernels, and for the host where the device is the host's own. Everybody else reads
  // and writes through core/tensor/host.h.
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device& device() const;
  // Whether nobody else holds this memory, so that it may be written in place.
  bool unique() const { return block_.use_count() == 1; }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.data_ == b.data_; }

  // Copies `to.size()` bytes from `offset` on to the host when they have been written. Throws what stopped that.
  void read(int64_t offset, std::span<std::byte> to) const;
  // The same memory is written from the host, from `offset` on, when nobody uses it any more. `from` is of the device's
  // staging memory, and kept until then.
  void write(int64_t offset, const Buffer& from, int64_t bytes) const;

  // What is read must wait for the last write, what is written for every use before it. Uses are noted when they are
  // given to a queue. On the host's device nothing is kept: all has ended.
  void before_read(Queue& queue) const;
  void before_write(Queue& queue) const;
  void note_read(const Event& event) const;
  void note_write(const Event& event) const;

 private:
  struct Block;
  void read_registered(int64_t offset, std::span<std::byte> to) const;
  std::shared_ptr<Block> block_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// A unit of work that is given to a device: takes one of its queues, waits there for what it reads and writes, and notes
// the event of its end with all of it. Costs nothing on the host's device.
class Submission {
 public:
  explicit Submission(Device& device, Device::Use use = Device::Use::kKernels);
  // Waits for what was given where it has not finished: whoever gave it may be gone.
  ~Submission();
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  // Before the work that does so is given.
  void reads(const Buffer& buffer);
  void writes(const Buffer& buffer);
  Queue& queue() { return queue_; }
  // All is given.
  Event finish();

 private:
  Queue& queue_;
  std::unique_lock<std::mutex> lock_;  // none on the host's device
  std::vector<Buffer> read_, written_;
};

}  // namespace mstrain
