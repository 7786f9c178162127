#include "core/runtime/deferred_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/runtime/buffer.h"
#include "core/runtime/guarded_memory.h"
#include "core/runtime/staging_memory.h"

namespace mstrain {
namespace {

constexpr int64_t kMostWaiting = 512;  // pieces of work, before whoever gives one more waits

class DeferredDevice;

int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Ended : Event::State {
  explicit Ended(DeferredDevice& owner) : device(owner) {}
  bool done() const override { return is_done.load(std::memory_order_acquire); }
  void wait() override;
  void finish(std::exception_ptr why) {
    error = std::move(why);
    is_done.store(true, std::memory_order_release);
  }

  DeferredDevice& device;  // not asked once it is done
  std::exception_ptr error;
  std::atomic<bool> is_done = false;
};

// One of the three.
struct Item {
  std::function<void()> work = nullptr;
  Event awaited = {};
  bool needed = false;
  std::shared_ptr<Ended> ended = nullptr;

  bool ready() const { return awaited.done(); }
};

class DeferredQueue : public Queue {
 public:
  explicit DeferredQueue(DeferredDevice& device) : device_(device) {}
  bool calls_later() const override { return true; }
  void submit(std::function<void()> work) override;
  void wait(const Event& event, bool needed) override;
  Event record() override;
  void copy(void* to, const void* from, int64_t bytes, std::shared_ptr<const void> held) override;

  // Calls the next piece of work.
  void run(const Item& item) {
    if (item.ended != nullptr) {
      item.ended->finish(std::exchange(error_, nullptr));
      return;
    }
    try {
      if (item.work == nullptr) {
        item.needed ? item.awaited.wait() : item.awaited.settle();
      } else if (error_ == nullptr) {
        item.work();
      }
    } catch (...) {
      error_ = error_ == nullptr ? std::current_exception() : error_;
    }
  }

  std::deque<Item> items;  // the device's lock guards them

 private:
  DeferredDevice& device_;
  std::exception_ptr error_;  // of the unit under way; the device's thread alone asks
};

class DeferredDevice : public Device {
 public:
  explicit DeferredDevice(const DeferredOptions& options)
      : options_(options), choices_(options.seed, 0), order_(options.seed, 1) {
    check(options.kernel_queues >= 1, "a device needs a queue for kernels");
    for (int i = 0; i <= options.kernel_queues; ++i) {
      queues_.push_back(std::make_unique<DeferredQueue>(*this));
    }
    thread_ = std::thread([this] { run(); });
  }

  // What has not run by now never does.
  ~DeferredDevice() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    const auto gone = std::make_exception_ptr(Error("the device of this work is gone"));
    for (const auto& queue : queues_) {
      for (const Item& item : queue->items) {
        if (item.ended != nullptr) {
          item.ended->finish(gone);
        }
      }
    }
  }

  std::string name() const override { return "deferred"; }
  void* allocate(int64_t bytes) override { return memory_.allocate(bytes); }
  void release(void* data, int64_t bytes) override { memory_.release(data, bytes); }
  void* kernel_address(void* data) const override { return memory_.open(data); }
  std::shared_ptr<Allocator> staging() override { return staging_; }
  void record_copies(std::vector<CopyTime>* times) override {
    const std::lock_guard lock(mutex_);
    copies_ = times;
  }
  void note_copy(const CopyTime& copy) {
    const std::lock_guard lock(mutex_);
    if (copies_ != nullptr) {
      copies_->push_back(copy);
    }
  }
  bool is_registered(const void* data, int64_t bytes) const override {
    return staging_memory_->holds(data, bytes);
  }
  // Whether `data` is the device's own; throws where it is neither that nor registered.
  bool owns(const void* data, int64_t bytes) const {
    if (memory_.holds(data)) {
      return true;
    }
    check(is_registered(data, bytes),
          "a device copies {} bytes of the host's memory that are not registered with it; take "
          "them from Device::staging()",
          bytes);
    return false;
  }
  Queue& queue(Use use) override {
    if (use == Use::kCopies) {
      return *queues_.back();
    }
    const std::lock_guard lock(mutex_);
    return *queues_[choices_.below(static_cast<uint64_t>(options_.kernel_queues))];
  }

  void add(DeferredQueue& queue, Item item) {
    std::unique_lock lock(mutex_);
    queue.items.push_back(std::move(item));
    if (++waiting_ > kMostWaiting) {
      demand(lock, nullptr);
    } else if (ahead_ > 0 || !demands_.empty() || waiting_ == 1) {
      wake_.notify_all();
    }
  }

  void run_until(const Ended& ended) {
    check(std::this_thread::get_id() != thread_.get_id(), "a device's kernel waits for the device");
    std::unique_lock lock(mutex_);
    demand(lock, &ended);
  }

 private:
  // What a thread waits for; null: shorter queues.
  bool met(const Ended* ended) const {
    return ended != nullptr ? ended->done() : waiting_ <= kMostWaiting / 2;
  }

  void demand(std::unique_lock<std::mutex>& lock, const Ended* ended) {
    demands_.push_back(ended);
    wake_.notify_all();
    met_.wait(lock, [&] { return met(ended); });
    demands_.erase(std::find(demands_.begin(), demands_.end(), ended));
  }

  bool demanded() const {
    return std::any_of(demands_.begin(), demands_.end(),
                       [this](const Ended* ended) { return !met(ended); });
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      await_work(lock);
      if (stop_) {
        return;
      }
      ahead_ = demanded()
                   ? static_cast<int>(order_.below(static_cast<uint64_t>(options_.ahead) + 1))
                   : ahead_ - 1;
      DeferredQueue& queue = next();
      Item item = std::move(queue.items.front());
      queue.items.pop_front();
      --waiting_;
      lock.unlock();
      queue.run(item);
      item = {};
      lock.lock();
      met_.notify_all();
    }
  }

  // Until something is to run, or the device is gone.
  void await_work(std::unique_lock<std::mutex>& lock) {
    const auto is_due = [this] { return stop_ || (waiting_ > 0 && (ahead_ > 0 || demanded())); };
    if (options_.ahead == 0 || waiting_ == 0) {
      wake_.wait(lock, [&] { return is_due() || (waiting_ > 0 && options_.ahead > 0); });
    }
    if (!wake_.wait_for(lock, std::chrono::milliseconds(options_.patience_ms), is_due)) {
      ahead_ = static_cast<int>(waiting_);
    }
  }

  // Any queue whose next piece of work may run; where all wait for events of others, the first that waits.
  DeferredQueue& next() {
    std::vector<DeferredQueue*> ready;
    DeferredQueue* first = nullptr;
    for (const auto& queue : queues_) {
      if (!queue->items.empty()) {
        first = first == nullptr ? queue.get() : first;
        if (queue->items.front().ready()) {
          ready.push_back(queue.get());
        }
      }
    }
    return ready.empty() ? *first : *ready[order_.below(ready.size())];
  }

  const DeferredOptions options_;
  GuardedMemory memory_;
  const std::shared_ptr<StagingMemory> staging_memory_ = std::make_shared<StagingMemory>(
      [](int64_t bytes) { return host_device()->allocate(bytes); },
      [](void* data, int64_t bytes) { host_device()->release(data, bytes); });
  const std::shared_ptr<Allocator> staging_ =
      std::make_shared<Allocator>(Allocator::kCacheLimit, staging_memory_);
  std::vector<CopyTime>* copies_ = nullptr;
  std::vector<std::unique_ptr<DeferredQueue>> queues_;  // for kernels, then the one for copies
  std::mutex mutex_;
  std::condition_variable wake_, met_;
  Rng choices_;                        // of queues for kernels
  Rng order_;                          // of their work
  int64_t waiting_ = 0;                // pieces of work
  std::vector<const Ended*> demands_;  // of the threads that wait
  int ahead_ = 0;                      // pieces of work that may run although nobody waits
  bool stop_ = false;
  std::thread thread_;
};

void Ended::wait() {
  if (!done()) {
    device.run_until(*this);
  }
  if (error != nullptr) {
    std::rethrow_exception(error);
  }
}

void DeferredQueue::submit(std::function<void()> work) {
  device_.add(*this, {.work = std::move(work)});
}

void DeferredQueue::wait(const Event& event, bool needed) {
  if (!event.done() || needed) {
    device_.add(*this, {.awaited = event, .needed = needed});
  }
}

Event DeferredQueue::record() {
  auto ended = std::make_shared<Ended>(device_);
  device_.add(*this, {.ended = ended});
  return Event(std::move(ended));
}

void DeferredQueue::copy(void* to, const void* from, int64_t bytes,
                         std::shared_ptr<const void> held) {
  const bool to_device = device_.owns(to, bytes);
  const bool within = device_.owns(from, bytes) && to_device;
  submit([&device = device_, to = device_.kernel_address(to),
          from = device_.kernel_address(const_cast<void*>(from)), bytes, held = std::move(held),
          to_device, within] {
    const int64_t begin = steady_nanoseconds();
    std::memcpy(to, from, static_cast<size_t>(bytes));
    if (!within) {
      device.note_copy({begin, steady_nanoseconds(), bytes, to_device});
    }
  });
}

}  // namespace

std::shared_ptr<Device> make_deferred_device(const DeferredOptions& options) {
  return std::make_shared<DeferredDevice>(options);
}

}  // namespace mstrain
