#include "core/backends/cuda/device.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <iterator>

#include "core/backends/cuda/text.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/runtime/capture.h"
#include "core/runtime/host_memory.h"
#include "core/runtime/staging_memory.h"

namespace mstrain::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr unsigned kPortable = 1;     // CU_MEMHOSTALLOC_PORTABLE
constexpr int kRelaxed = 2;           // CU_STREAM_CAPTURE_MODE_RELAXED: others go on meanwhile
constexpr Driver::Result kNotReady = 600;

Driver::Address address_of(const void* data) { return reinterpret_cast<Driver::Address>(data); }

std::atomic<int> ordinal = 0;
std::atomic<bool> is_open = false;

// Of a card: what lies beside its queues, and does not move.
struct Card {
  Card() {
    is_open = true;
    check_driver(driver().retain_context(&context, ordinal), "cuDevicePrimaryCtxRetain");
    bind();
    void* at = nullptr;
    check_driver(driver().allocate_host(&at, sizeof(Report), kPortable), "cuMemHostAlloc");
    report = new (at) Report();
    check_driver(driver().create_event(&origin_, 0), "cuEventCreate");
    move_origin();
  }
  void bind() const { check_driver(try_to_bind(), "cuCtxSetCurrent"); }
  Driver::Result try_to_bind() const {
    thread_local const void* bound = nullptr;
    if (bound == context) {
      return 0;
    }
    const Driver::Result result = driver().set_context(context);
    bound = result == 0 ? context : bound;
    return result;
  }
  // When it was done, in nanoseconds of the steady clock; 0: it is not.
  int64_t time_of(Driver::Handle event) {
    const std::lock_guard lock(mutex_);
    float after = 0;
    Driver::Result result = driver().time_between(&after, origin_, event);
    if (result == 0 && std::abs(after) > kFarthest) {
      move_origin();
      result = driver().time_between(&after, origin_, event);
    }
    return result != 0 ? 0 : origin_time_ + static_cast<int64_t>(double{after} * 1e6);
  }

  Driver::Handle context = nullptr;
  Report* report = nullptr;

 private:
  // Milliseconds whose 24 bits are as fine as the driver's clock.
  static constexpr float kFarthest = 4096;

  void move_origin() {
    check_driver(driver().record_event(origin_, nullptr), "cuEventRecord");
    check_driver(driver().wait_event(origin_), "cuEventSynchronize");
    origin_time_ = nanoseconds_now();
  }

  std::mutex mutex_;
  Driver::Handle origin_ = nullptr;  // an event whose time is known
  int64_t origin_time_ = 0;
};

// Never destroyed: threads and buffers of any age may ask for it, and the driver ends with the process.
Card& card() {
  static Card* const it = new Card();
  return *it;
}

// Why nothing that the card makes is of use any more.
class Spoilt {
 public:
  void set(std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    if (why_ == nullptr) {
      why_ = std::move(why);
    }
  }
  void check() const {
    const std::lock_guard lock(mutex_);
    if (why_ != nullptr) {
      std::rethrow_exception(why_);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr why_;
};
Spoilt& spoilt() {
  static Spoilt* const it = new Spoilt();
  return *it;
}

// Events are made once and used again.
class EventPool {
 public:
  Driver::Handle take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      Driver::Handle event = nullptr;
      check_driver(driver().create_event(&event, 0), "cuEventCreate");
      return event;
    }
    const Driver::Handle event = free_.back();
    free_.pop_back();
    return event;
  }
  void give(Driver::Handle event) {
    const std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  std::mutex mutex_;
  std::vector<Driver::Handle> free_;
};
EventPool& events() {
  static EventPool* const it = new EventPool();
  return *it;
}

// What is given to queues between the beginning and the end of a capture.
struct Capture {
  bool is_open = true;
  std::vector<std::shared_ptr<const void>> held;  // what copies in it read
};

struct Recorded : Event::State {
  Recorded(Driver::Handle in, std::vector<std::shared_ptr<const void>> until,
           std::shared_ptr<Capture> of)
      : event(events().take()), stream(in), held(std::move(until)), capture(std::move(of)) {
    check_driver(driver().record_event(event, stream), "cuEventRecord");
  }
  ~Recorded() override { events().give(event); }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  bool done() const override {
    if (!is_done && capture == nullptr) {
      card().bind();
      const Driver::Result result = driver().query_event(event);
      if (result != kNotReady) {
        check_driver(result, "cuEventQuery");
        is_done = true;
      }
    }
    return is_done;
  }
  void wait() override {
    if (capture != nullptr) {
      throw NotCaptured("the host waits for the card");
    }
    card().bind();
    const std::lock_guard lock(mutex);
    if (!is_waited) {
      wait_for_driver();
      is_waited = true;
      try {
        check_spoilt();
        check_report();
      } catch (const Error&) {
        error = std::current_exception();
      }
    }
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }
  void settle() override {
    if (capture == nullptr) {
      card().bind();
      const std::lock_guard lock(mutex);
      wait_for_driver();
    }
  }
  int64_t ended() const override {
    card().bind();
    return done() ? card().time_of(event) : 0;
  }

  Driver::Handle event, stream;
  std::vector<std::shared_ptr<const void>> held;  // what copies before it read
  std::shared_ptr<Capture> capture;               // that it is part of; null: of none
  std::mutex mutex;
  mutable std::atomic<bool> is_done = false;
  std::atomic<bool> is_waited = false;
  std::exception_ptr error;

 private:
  void wait_for_driver() {
    check_driver(driver().wait_event(event), "a kernel");
    is_done = true;
    held.clear();
  }
};

class Graph : public Captured {
 public:
  Graph(Driver::Handle executable, std::shared_ptr<Capture> of)
      : executable(executable), capture_(std::move(of)) {}
  ~Graph() override {
    if (card().try_to_bind() == 0) {
      driver().destroy_executable(executable);
    }
  }
  const Driver::Handle executable;

 private:
  std::shared_ptr<const Capture> capture_;
};

class CudaQueue : public CapturingQueue {
 public:
  CudaQueue() { check_driver(driver().create_stream(&stream, kNonBlocking), "cuStreamCreate"); }
  void submit(std::function<void()> work) override { work(); }
  void wait(const Event& event, bool needed) override {
    card().bind();
    give_joint();
    if (const auto* recorded = dynamic_cast<const Recorded*>(event.state())) {
      if (needed && recorded->is_waited) {
        event.wait();
      }
      if (recorded->capture != nullptr) {
        capture_ = recorded->capture;
      } else if (captures() && !event.done()) {
        throw NotCaptured("it waits for work from before");
      }
      if (recorded->stream != stream && !event.done()) {
        check_driver(driver().stream_waits(stream, recorded->event, 0), "cuStreamWaitEvent");
      }
      return;
    }
    needed ? event.wait() : event.settle();
  }
  Event record() override {
    card().bind();
    give_joint();
    if (captures()) {
      hold_in_capture();
      return Event(
          std::make_shared<Recorded>(stream, std::vector<std::shared_ptr<const void>>(), capture_));
    }
    while (!recorded_.empty() && recorded_.front()->done()) {
      recorded_.pop_front();
    }
    auto state = std::make_shared<Recorded>(stream, std::exchange(held_, {}), nullptr);
    if (!state->held.empty()) {
      recorded_.push_back(state);  // what it holds outlives the copies, whoever drops the event
    }
    return Event(std::move(state));
  }
  void copy(void* to, const void* from, int64_t bytes, std::shared_ptr<const void> held) override {
    card().bind();
    give_joint();
    check_driver(
        driver().copy(address_of(to), address_of(from), static_cast<size_t>(bytes), stream),
        "cuMemcpyAsync");
    if (held != nullptr) {
      held_.push_back(std::move(held));
    }
  }

  void begin_capture() override {
    card().bind();
    check_driver(driver().begin_capture(stream, kRelaxed), "cuStreamBeginCapture");
    capture_ = std::make_shared<Capture>();
  }
  std::unique_ptr<Captured> end_capture() override {
    give_joint();
    hold_in_capture();
    const auto capture = std::exchange(capture_, nullptr);
    capture->is_open = false;
    Driver::Handle graph = nullptr, executable = nullptr;
    Driver::Result result = driver().end_capture(stream, &graph);
    if (result == 0) {
      result = driver().instantiate(&executable, graph, 0);
      driver().destroy_graph(graph);
    }
    if (result != 0) {
      throw NotCaptured(
          fmt::format("the driver does not make a graph of it (CUresult {})", result));
    }
    return std::make_unique<Graph>(executable, capture);
  }
  void drop_capture() noexcept override {
    joint_.drop();
    if (captures()) {
      capture_->is_open = false;
      capture_ = nullptr;
      Driver::Handle graph = nullptr;
      if (driver().end_capture(stream, &graph) == 0 && graph != nullptr) {
        driver().destroy_graph(graph);
      }
    }
  }
  void launch(const Captured& work) override {
    card().bind();
    check_driver(driver().launch_graph(dynamic_cast<const Graph&>(work).executable, stream),
                 "cuGraphLaunch");
  }
  bool captures() const { return capture_ != nullptr && capture_->is_open; }
  void give(const CardLaunch& it) {
    if (captures()) {
      joint_.add(it, stream);
    } else {
      give_launch(it, stream);
    }
  }
  Driver::Handle complete_stream() {
    give_joint();
    return stream;
  }

  Driver::Handle stream = nullptr;

 private:
  // What was kept of a capture that was dropped is nobody's.
  void give_joint() { captures() ? joint_.flush(stream) : joint_.drop(); }
  void hold_in_capture() {
    std::move(held_.begin(), held_.end(), std::back_inserter(capture_->held));
    held_.clear();
  }

  JointLaunches joint_;                            // of the capture that is open
  std::shared_ptr<Capture> capture_;               // the last that it was part of
  std::vector<std::shared_ptr<const void>> held_;  // until the next event
  std::deque<std::shared_ptr<Recorded>> recorded_;
};

void* allocate_pinned(int64_t bytes) {
  card().bind();
  void* at = nullptr;
  check(driver().allocate_host(&at, static_cast<size_t>(bytes), kPortable) == 0,
        "out of memory: {} bytes of the host's memory could not be pinned", bytes);
  return at;
}

// What a card that failed takes back no more goes with the process. Whoever asks it for anything else is told why.
void release_pinned(void* data, int64_t) {
  if (card().try_to_bind() == 0) {
    driver().release_host(data);
  }
}

// The host's memory, with what `card` does to it.
class CardHostMemory : public Device {
 public:
  explicit CardHostMemory(Device& card) : card_(card) {}
  std::string name() const override { return "the host's memory for cuda"; }
  void* allocate(int64_t bytes) override { return allocate_pinned(bytes); }
  void release(void* data, int64_t bytes) override { release_pinned(data, bytes); }
  Queue& queue(Use use) override { return card_.queue(use); }
  std::shared_ptr<Allocator> staging() override { return card_.staging(); }
  bool is_registered(const void* data, int64_t bytes) const override {
    return card_.is_registered(data, bytes);
  }

 private:
  Device& card_;  // which lives as long as the process
};

class CudaDevice : public DeviceWithHostMemory {
 public:
  std::string name() const override { return "cuda"; }
  int64_t memory_bytes() const override {
    card().bind();
    size_t free = 0, all = 0;
    check_driver(driver().memory_info(&free, &all), "cuMemGetInfo");
    return static_cast<int64_t>(all);
  }
  void* allocate(int64_t bytes) override {
    card().bind();
    Driver::Address at = 0;
    const Driver::Result result = driver().allocate(&at, static_cast<size_t>(bytes));
    if (result != 0) {
      size_t free = 0, all = 0;
      driver().memory_info(&free, &all);
      fail("out of memory: {} bytes could not be allocated on the card, which has {} of {} left",
           bytes, free, all);
    }
    return reinterpret_cast<void*>(at);
  }
  void release(void* data, int64_t) override {
    if (card().try_to_bind() == 0) {
      driver().release(address_of(data));
    }
  }
  Queue& queue(Use use) override { return use == Use::kKernels ? kernels_ : copies_; }
  std::shared_ptr<Allocator> staging() override { return staging_; }
  bool is_registered(const void* data, int64_t bytes) const override {
    return staging_memory_->holds(data, bytes);
  }
  const std::shared_ptr<Allocator>& host_memory() override { return host_memory_; }

 private:
  CudaQueue kernels_, copies_;
  const std::shared_ptr<StagingMemory> staging_memory_ =
      std::make_shared<StagingMemory>(allocate_pinned, release_pinned);
  const std::shared_ptr<Allocator> staging_ =
      std::make_shared<Allocator>(Allocator::kCacheLimit, staging_memory_);
  const std::shared_ptr<Allocator> host_memory_ =
      std::make_shared<Allocator>(Allocator::kCacheLimit, std::make_shared<CardHostMemory>(*this));
};

}  // namespace

const std::shared_ptr<Device>& device() {
  static const auto* const it = [] {
    card();
    return new std::shared_ptr<Device>(std::make_shared<CudaDevice>());
  }();
  return *it;
}

void choose_card(int it) {
  check(!is_open || ordinal == it, "card {} is open, and card {} is asked for", ordinal.load(), it);
  ordinal = it;
}
int chosen_card() { return ordinal; }
const DeviceFacts* chosen_facts() {
  static const FoundDevices found = look_for_devices();
  const auto which = static_cast<size_t>(chosen_card());
  return which < found.devices.size() ? &found.devices[which] : nullptr;
}

std::unique_ptr<Queue> make_queue() {
  bind_context();
  return std::make_unique<CudaQueue>();
}

bool is_captured(Queue& queue) { return dynamic_cast<CudaQueue&>(queue).captures(); }
void check_runs(Queue& queue, const std::string& what) {
  if (is_captured(queue)) {
    throw NotCaptured(what);
  }
}

void spoil(std::exception_ptr why) { spoilt().set(std::move(why)); }
void check_spoilt() { spoilt().check(); }

void give(Queue& queue, const CardLaunch& launch) { dynamic_cast<CudaQueue&>(queue).give(launch); }

Driver::Handle stream_of(Queue& queue) { return dynamic_cast<CudaQueue&>(queue).complete_stream(); }

void bind_context() { card().bind(); }

void* report_address() { return card().report; }

void check_report() {
  if (card().report->operation != 0) {
    const Report found = *card().report;
    *card().report = {};
    throw Error(message_of(found));
  }
}

}  // namespace mstrain::cuda
