// Memory at two addresses: where it is said to lie nobody may touch it, and one who does ends the process with a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace mstrain {

// Thread-safe. At most kMost of them exist at a time.
class GuardedMemory {
 public:
  static constexpr size_t kMost = 16;

  GuardedMemory();
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // The guarded address of as many bytes, page by page. Throws Error when there is no room.
  void* allocate(int64_t bytes);
  void release(void* data, int64_t bytes);
  // Where what is guarded at `data` is read and written; other addresses are returned as they are.
  void* open(void* data) const;
  // Whether it lies here, at either address.
  bool holds(const void* data) const;

 private:
  std::byte* guarded_ = nullptr;
  std::byte* open_ = nullptr;
  std::mutex mutex_;
  int64_t used_ = 0;                              // from the beginning on
  std::map<int64_t, std::vector<int64_t>> free_;  // places below that, by size
};

}  // namespace mstrain
