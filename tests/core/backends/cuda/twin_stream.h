// Streams, events and graphs of a card that is none (twin.cc): a stream is a thread that does what it is given in order, and later than it is
// given, so that whoever does not wait where he must finds nothing there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace mstrain::twin {

// What was captured: work with what must have ended before it begins.
class Graph {
 public:
  // In an order that keeps to that, and to nothing else: what stands beside the stream that was captured comes as late as it can, or as
  // early, in turns.
  int run();
  size_t size() const { return nodes_.size(); }

 private:
  friend class Stream;
  struct Node {
    std::function<int()> work;
    std::set<size_t> before;
    bool beside = false;
  };
  std::vector<Node> nodes_;
  bool late_ = true;
};

// What a stream had been given when it was recorded last. Results are those of the driver: 0, 600 for what is not done, 907 where
// what was recorded is captured.
class Event {
 public:
  int query();
  int wait();
  // What its stream had spent before it, in nanoseconds, and what had passed before that.
  int64_t spent();
  void set_passed(int64_t nanoseconds) { passed_ = nanoseconds; }

 private:
  friend class Stream;
  void ended(int64_t recorded, int result, int64_t spent);

  std::shared_ptr<Graph> graph_;  // that it was recorded in
  std::set<size_t> nodes_;        // that it then stands behind

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t recorded_ = 0;         // times
  std::set<int64_t> under_way_;  // of these; streams may end them in another order
  int result_ = 0;               // of what failed before
  int64_t spent_ = 0;
  std::atomic<int64_t> passed_ = 0;
};

// Lives as long as the process.
class Stream {
 public:
  Stream();
  // What fails leaves out all that comes after it.
  void give(std::function<int()> work);
  void record(Event& event);
  // 905: it is captured, and the event is not.
  int wait_for(Event& event);
  int settle();
  static void settle_all();
  // Work says what time it would take; nothing else takes any.
  void spend(int64_t nanoseconds) { spent_ += nanoseconds; }

  // What is given to it, and to streams that wait for it, from now on until end_capture(). Null there: 904, a stream has not come back.
  void begin_capture();
  std::shared_ptr<Graph> end_capture();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<int()>> work_;
  bool busy_ = false;
  std::atomic<int64_t> spent_ = 0;
  int result_ = 0;
  std::shared_ptr<Graph> graph_;  // that it is captured in
  std::set<size_t> last_;         // of its nodes, what comes next stands behind
  bool is_first_ = false;         // of the streams in it
};

}  // namespace mstrain::twin
