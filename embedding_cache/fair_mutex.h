// A shared mutex that readers cannot keep from a writer: everyone passes a gate on the way in, and a writer waits inside it.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace mstrain::embedding_cache {

class FairSharedMutex {
 public:
  void lock() {
    const std::lock_guard pass(gate_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    const std::lock_guard pass(gate_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex gate_;
  std::shared_mutex mutex_;
};

}  // namespace mstrain::embedding_cache
