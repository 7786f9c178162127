#include <utility>

#include "mcts/search/pipeline.h"

namespace mstrain::mcts {

Pipeline::Pipeline() : thread_([this] { work(); }) {}

Pipeline::~Pipeline() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Pipeline::submit(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    ++submitted_;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Pipeline::wait(uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ >= count || error_; });
  if (error_) {
    std::rethrow_exception(error_);
  }
}

double Pipeline::busy_seconds() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

// A job that has begun always ends before the destructor returns; jobs not begun are dropped.
void Pipeline::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) {
      return;
    }
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    if (!error_) {
      lock.unlock();
      const auto begin = std::chrono::steady_clock::now();
      std::exception_ptr thrown;
      try {
        job();
      } catch (...) {
        thrown = std::current_exception();
      }
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      lock.lock();
      busy_ += seconds;
      error_ = thrown;
    }
    ++ended_;
    changed_.notify_all();
  }
}

}  // namespace mstrain::mcts
