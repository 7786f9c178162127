// Working memory of calls that run side by side: later calls find what earlier ones left in it, such as a cache of words.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace mstrain {

// Thread-safe. Holds as many works as calls ever ran at once.
template <class Work>
class WorkPool {
 public:
  // body(work), which no other call uses meanwhile. The work of a call that throws is not used again.
  template <class Body>
  auto run(const Body& body) {
    std::unique_ptr<Work> work = take();
    auto result = body(*work);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(work));
    return result;
  }

 private:
  std::unique_ptr<Work> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return std::make_unique<Work>();
    }
    std::unique_ptr<Work> work = std::move(free_.back());
    free_.pop_back();
    return work;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Work>> free_;
};

}  // namespace mstrain
