// Work that is done elsewhere, in order: the evaluator's side of overlapped searches.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace mstrain::mcts {

// A thread that runs jobs in the order in which they were given, and keeps account of how busy it was. The first exception
// ends it: later jobs are dropped and wait() throws.
class Pipeline {
 public:
  Pipeline();
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  void submit(std::function<void()> job);
  // Returns when `count` jobs have ended since the beginning. Throws what a job threw.
  void wait(uint64_t count);
  uint64_t submitted() const { return submitted_; }
  double busy_seconds() const;

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  uint64_t submitted_ = 0;
  uint64_t ended_ = 0;
  double busy_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace mstrain::mcts
