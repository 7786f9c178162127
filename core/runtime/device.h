// What memory lies on and work runs on. A device gives memory, copies, and has queues that run work in order; events
// order what lies in different queues. Buffers carry the events of their last uses (buffer.h), a Submission waits for and
// notes them, and the host reads and writes through one door (core/tensor/host.h).
//
// The host's own device is the free case: its memory is the host's, work has ended when the call that gives it returns,
// and every event is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mstrain {

class Allocator;  // core/runtime/buffer.h

// A point in a queue: complete when all work before it has ended. Copies are the same event; the empty one is complete.
// Thread-safe.
class Event {
 public:
  struct State {
    virtual ~State() = default;
    virtual bool done() const = 0;
    virtual void wait() = 0;  // throws what stopped the work
    // The same, asked by whoever needs no result: what stopped the work is left for those who do.
    virtual void settle() { wait(); }
    // When it was done, in nanoseconds of the steady clock; 0: it is not, or nobody looked.
    virtual int64_t ended() const { return 0; }
  };

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool done() const { return state_ == nullptr || state_->done(); }
  // Throws what stopped the work before it, or the work that this waited for: whoever reads a result learns why there is
  // none.
  void wait() const {
    if (state_ != nullptr) {
      state_->wait();
    }
  }
  int64_t ended() const { return state_ == nullptr ? 0 : state_->ended(); }
  // Waits without a word of failures: memory may then be used anew.
  void settle() const noexcept;
  // For the queues of its device.
  const State* state() const { return state_.get(); }

 private:
  std::shared_ptr<State> state_;
};

// Runs work in the order in which it is given. What is given between two calls of record() is one unit: where a part of it
// fails, the rest is left out, and the event that ends it says so. One thread at a time, which holds `mutex`.
class Queue {
 public:
  Queue() = default;
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Whether kernels are called by the queue, later, and not by whoever gives them work: those of the host on a device that
  // runs late. A kernel that only launches (a GPU's) is called at once.
  virtual bool calls_later() const { return false; }
  // Runs `work` in its turn; at once where the queue does not call later.
  virtual void submit(std::function<void()> work) = 0;
  // What is given from now on runs after `event`; the rest of this unit not at all where that failed and is `needed`.
  virtual void wait(const Event& event, bool needed) = 0;
  virtual Event record() = 0;
  // Copies within the device, from its staging memory to it or back. `held` is kept until then.
  virtual void copy(void* to, const void* from, int64_t bytes,
                    std::shared_ptr<const void> held = nullptr) = 0;

  std::mutex mutex;
};

// A copy between host and device as it ran.
struct CopyTime {
  int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
  int64_t bytes = 0;
  bool to_device = false;
};

class Device {
 public:
  // What a queue is wanted for: copies between host and device have one of their own, so that they overlap kernels.
  enum class Use : uint8_t { kKernels, kCopies };

  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string name() const = 0;
  // All memory of its own; 0: it has none but the host's.
  virtual int64_t memory_bytes() const { return 0; }
  // Whether its memory is the host's and nothing runs late there.
  virtual bool is_host() const { return false; }
  // Memory aligned to 64 bytes. Throws Error when there is no more. What is released is not in use by any queue; a device that
  // has failed throws nothing there, where destructors come by.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* data, int64_t bytes) = 0;
  virtual Queue& queue(Use use) = 0;
  // Where kernels find what lies at `data`.
  virtual void* kernel_address(void* data) const { return data; }
  // Memory of the host that is registered with the device: what its queues copy from and to. For the host's own device
  // all memory is.
  virtual std::shared_ptr<Allocator> staging() = 0;
  virtual bool is_registered(const void* /*data*/, int64_t /*bytes*/) const { return true; }
  // Appends every copy between the host and it that ends from now on, until called with null.
  virtual void record_copies(std::vector<CopyTime>* /*times*/) {}
};

const std::shared_ptr<Device>& host_device();

// What contexts compute on unless they say otherwise: the host, the device that MSTRAIN_DEVICE names, `cpu` or
// `deferred` (deferred_device.h), or what was installed. Throws ConfigError for other names.
const std::shared_ptr<Device>& default_device();
// From now on that is `device`, also for the context of threads that bound none. At the start of a run, before tensors are made.
void install_default_device(std::shared_ptr<Device> device);

}  // namespace mstrain
