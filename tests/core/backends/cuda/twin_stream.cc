#include "tests/core/backends/cuda/twin_stream.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace mstrain::twin {
namespace {

constexpr int kNotReady = 600;

// Never destroyed, as the streams' threads never end.
struct Streams {
  std::mutex mutex;
  std::vector<Stream*> all;
};
Streams& streams() {
  static Streams* const it = new Streams();
  return *it;
}

}  // namespace

int Event::query() {
  const std::lock_guard lock(mutex_);
  return ended_ < recorded_ ? kNotReady : result_;
}

int Event::wait() {
  std::unique_lock lock(mutex_);
  const int64_t recorded = recorded_;
  changed_.wait(lock, [&] { return ended_ >= recorded; });
  return result_;
}

void Event::ended(int64_t recorded, int result) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = std::max(ended_, recorded);  // another stream may have been faster with a later one
    result_ = result;
  }
  changed_.notify_all();
}

Stream::Stream() {
  {
    const std::lock_guard lock(streams().mutex);
    streams().all.push_back(this);
  }
  std::thread([this] { run(); }).detach();
}

void Stream::give(std::function<int()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back([this, work = std::move(work)] { return result_ == 0 ? work() : result_; });
  }
  changed_.notify_all();
}

void Stream::record(Event& event) {
  int64_t recorded = 0;
  {
    const std::lock_guard lock(event.mutex_);
    recorded = ++event.recorded_;
  }
  const std::lock_guard lock(mutex_);
  work_.emplace_back([this, &event, recorded] {
    event.ended(recorded, result_);
    return 0;
  });
  changed_.notify_all();
}

void Stream::wait_for(Event& event) {
  int64_t recorded = 0;
  {
    const std::lock_guard lock(event.mutex_);
    recorded = event.recorded_;
  }
  give([&event, recorded] {
    std::unique_lock lock(event.mutex_);
    event.changed_.wait(lock, [&] { return event.ended_ >= recorded; });
    return event.result_;
  });
}

int Stream::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty() && !busy_; });
  return result_;
}

void Stream::settle_all() {
  std::vector<Stream*> all;
  {
    const std::lock_guard lock(streams().mutex);
    all = streams().all;
  }
  for (Stream* stream : all) {
    stream->settle();
  }
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !work_.empty(); });
    const std::function<int()> work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    const int result = work();
    lock.lock();
    result_ = result_ == 0 ? result : result_;
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace mstrain::twin
