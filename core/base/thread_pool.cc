#include "core/base/thread_pool.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/base/error.h"

namespace mstrain {
namespace {

// One parallel_for, shared by the caller and the helpers, which may start after it has ended.
struct Loop {
  int64_t count;
  int64_t chunk;
  const std::function<void(int64_t, int64_t)>* body;  // valid while chunks are unfinished
  std::mutex mutex;
  std::condition_variable done;
  int64_t next = 0;     // first element that nobody has taken
  int64_t running = 0;  // chunks taken and not ended
  int64_t failed_at = -1;
  std::exception_ptr error;

  // Chunks are taken in ascending order, so one that threw has only lower ones running beside it or before it.
  void work() {
    std::unique_lock lock(mutex);
    while (next < count) {
      const int64_t begin = next;
      const int64_t end = std::min(count, begin + std::min(chunk, count - begin));
      next = end;
      ++running;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        (*body)(begin, end);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      --running;
      if (thrown) {
        next = count;
        if (!error || begin < failed_at) {
          failed_at = begin;
          error = std::move(thrown);
        }
      }
    }
    if (running == 0) {
      done.notify_all();
    }
  }
};

}  // namespace

ThreadPool::ThreadPool(int threads) {
  check(threads >= 0, "ThreadPool: {} threads", threads);
  try {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::exception& error) {
    stop();
    fail("ThreadPool: {} threads, of which the system gives {}: {}", threads, threads_.size(),
         error.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void ThreadPool::post(std::function<void()> task) {
  if (threads_.empty()) {
    task();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void ThreadPool::work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

void ThreadPool::parallel_for(int64_t count, int64_t chunk,
                              const std::function<void(int64_t, int64_t)>& body) {
  check(chunk > 0, "parallel_for: chunks of {} elements", chunk);
  if (count <= 0) {
    return;
  }
  const auto loop = std::make_shared<Loop>();
  loop->count = count;
  loop->chunk = chunk;
  loop->body = &body;
  const int64_t chunks = (count - 1) / chunk + 1;
  for (int64_t helpers = std::min<int64_t>(size(), chunks - 1); helpers > 0; --helpers) {
    post([loop] { loop->work(); });
  }
  loop->work();
  std::unique_lock lock(loop->mutex);
  loop->done.wait(lock, [&] { return loop->running == 0 && loop->next >= loop->count; });
  if (loop->error) {
    std::rethrow_exception(std::move(loop->error));  // no helper holds the last reference
  }
}

}  // namespace mstrain
