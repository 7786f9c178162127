// A fixed number of threads for work that is not a numerical loop (those use OpenMP): data prefetch, search trees, caches.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace mstrain {

// All methods are thread-safe and may be called from tasks of the pool itself. The destructor runs what was submitted,
// then joins.
class ThreadPool {
 public:
  // threads >= 0; with 0 the caller of parallel_for works alone and submit runs at once. Throws Error where the system
  // does not give so many.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  // Runs `task` some time; its result or exception arrives in the future. Do not wait for it inside another task.
  template <class F>
  std::future<std::invoke_result_t<F>> submit(F task) {
    using Result = std::invoke_result_t<F>;
    auto packaged = std::make_shared<std::packaged_task<Result()>>(std::move(task));
    std::future<Result> future = packaged->get_future();
    post([packaged] { (*packaged)(); });
    return future;
  }

  // Calls body(begin, end) for consecutive chunks of [0, count), `chunk` elements each but the last. The chunks do not
  // depend on the number of threads. The caller works too, so nested calls cannot deadlock. Returns when all have ended;
  // then rethrows the exception of the lowest chunk that threw (chunks not yet begun are skipped once one has thrown).
  void parallel_for(int64_t count, int64_t chunk,
                    const std::function<void(int64_t, int64_t)>& body);

 private:
  void post(std::function<void()> task);
  void work();
  void stop();  // and join

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mstrain
