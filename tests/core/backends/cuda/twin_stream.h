// Streams and events of a card that is none (twin.cc): a stream is a thread that does what it is given in order, and later than it is
// given, so that whoever does not wait where he must finds nothing there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace mstrain::twin {

// What a stream had been given when it was recorded last. Results are those of the driver: 0, or 600 for what is not done.
class Event {
 public:
  int query();
  int wait();

 private:
  friend class Stream;
  void ended(int64_t recorded, int result);

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t recorded_ = 0, ended_ = 0;  // times
  int result_ = 0;                    // of what failed before
};

// Lives as long as the process.
class Stream {
 public:
  Stream();
  // What fails leaves out all that comes after it.
  void give(std::function<int()> work);
  void record(Event& event);
  void wait_for(Event& event);
  int settle();
  static void settle_all();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<int()>> work_;
  bool busy_ = false;
  int result_ = 0;
};

}  // namespace mstrain::twin
