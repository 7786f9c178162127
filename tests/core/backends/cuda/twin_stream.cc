#include "tests/core/backends/cuda/twin_stream.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace mstrain::twin {
namespace {

constexpr int kNotReady = 600, kIsolated = 905, kCaptured = 907;

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

int Graph::run() {
  std::vector<bool> done(nodes_.size(), false);
  const auto is_ready = [&](size_t i) {
    const std::set<size_t>& before = nodes_[i].before;
    return !done[i] && std::all_of(before.begin(), before.end(), [&](size_t b) { return done[b]; });
  };
  late_ = !late_;
  for (size_t count = 0; count < nodes_.size(); ++count) {
    size_t next = nodes_.size();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (is_ready(i) &&
          (next == nodes_.size() || (nodes_[next].beside == late_ && nodes_[i].beside != late_))) {
        next = i;
      }
    }
    if (const int result = nodes_[next].work(); result != 0) {
      return result;
    }
    done[next] = true;
  }
  return 0;
}

int Event::query() {
  const std::lock_guard lock(mutex_);
  if (graph_ != nullptr) {
    return kCaptured;
  }
  return under_way_.contains(recorded_) ? kNotReady : result_;
}

int Event::wait() {
  std::unique_lock lock(mutex_);
  if (graph_ != nullptr) {
    return kCaptured;
  }
  const int64_t recorded = recorded_;
  changed_.wait(lock, [&] { return !under_way_.contains(recorded); });
  return result_;
}

int64_t Event::spent() {
  const std::lock_guard lock(mutex_);
  return passed_ + spent_;
}

void Event::ended(int64_t recorded, int result, int64_t spent) {
  {
    const std::lock_guard lock(mutex_);
    under_way_.erase(recorded);
    result_ = result;
    spent_ = spent;
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
  if (graph_ != nullptr) {
    graph_->nodes_.push_back({std::move(work), std::move(last_), !is_first_});
    last_ = {graph_->nodes_.size() - 1};
    return;
  }
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
    event.graph_ = graph_;
    if (graph_ != nullptr) {
      event.nodes_ = last_;
      return;
    }
    recorded = ++event.recorded_;
    event.under_way_.insert(recorded);
  }
  const std::lock_guard lock(mutex_);
  work_.emplace_back([this, &event, recorded] {
    event.ended(recorded, result_, spent_);
    return 0;
  });
  changed_.notify_all();
}

int Stream::wait_for(Event& event) {
  int64_t recorded = 0;
  {
    const std::lock_guard lock(event.mutex_);
    if (event.graph_ != nullptr) {
      graph_ = event.graph_;
      last_.insert(event.nodes_.begin(), event.nodes_.end());
      return 0;
    }
    recorded = event.recorded_;
  }
  if (graph_ != nullptr) {
    return kIsolated;
  }
  give([&event, recorded] {
    std::unique_lock lock(event.mutex_);
    event.changed_.wait(lock, [&] { return !event.under_way_.contains(recorded); });
    return event.result_;
  });
  return 0;
}

void Stream::begin_capture() {
  graph_ = std::make_shared<Graph>();
  is_first_ = true;
}

std::shared_ptr<Graph> Stream::end_capture() {
  std::shared_ptr<Graph> graph = graph_;
  std::set<size_t> joined = last_;
  for (size_t i = graph->nodes_.size(); i-- > 0;) {
    if (joined.contains(i)) {
      joined.insert(graph->nodes_[i].before.begin(), graph->nodes_[i].before.end());
    }
  }
  const std::lock_guard lock(streams().mutex);
  for (Stream* stream : streams().all) {
    if (stream->graph_ == graph) {
      stream->graph_ = nullptr;
      stream->last_.clear();
      stream->is_first_ = false;
    }
  }
  return joined.size() == graph->nodes_.size() ? graph : nullptr;
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
