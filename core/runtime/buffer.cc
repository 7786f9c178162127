#include "core/runtime/buffer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kLargeBlock = int64_t{4} << 20;
constexpr int64_t kPage = int64_t{4} << 10;
constexpr int64_t kMostStaged = int64_t{4} << 20;

}  // namespace

struct Allocator::State {
  mutable std::mutex mutex;
  struct Block {
    void* data;
    std::vector<Event> uses;
  };
  using Free = std::multimap<int64_t, Block>;
  Free free;  // by size
  std::vector<Free::node_type>
      spare;  // of blocks in use, so that giving them back allocates nothing
  int64_t cache_limit = 0;
  MemoryStats stats;

  // What is kept for requests of other sizes is no reason to end for want of memory.
  void* allocate(int64_t bytes, Device& device) {
    try {
      return device.allocate(bytes);
    } catch (const Error&) {
      if (free.empty()) {
        throw;
      }
    }
    trim_to(0, device);
    return device.allocate(bytes);
  }

  void trim_to(int64_t limit, Device& device) {
    while (stats.cached_bytes > limit && !free.empty()) {
      const auto largest = std::prev(free.end());
      stats.cached_bytes -= largest->first;
      for (const Event& use : largest->second.uses) {
        use.settle();
      }
      device.release(largest->second.data, largest->first);
      free.erase(largest);
    }
  }
};

Allocator::Allocator(int64_t cache_limit, std::shared_ptr<Device> device)
    : device_(std::move(device)), state_(std::make_unique<State>()) {
  state_->cache_limit = cache_limit;
}

Allocator::~Allocator() { state_->trim_to(0, *device_); }

int64_t Allocator::rounded(int64_t bytes) {
  const int64_t unit = bytes >= kLargeBlock ? kPage : kAlignment;
  return std::max(unit, (bytes + unit - 1) / unit * unit);
}

void* Allocator::allocate(int64_t bytes, std::vector<Event>* uses) {
  bytes = rounded(bytes);
  const std::lock_guard lock(state_->mutex);
  void* data = nullptr;
  // Blocks are reused at their exact (rounded) size, so that release() knows what it got.
  if (const auto found = state_->free.find(bytes); found != state_->free.end()) {
    data = found->second.data;
    if (uses != nullptr) {
      *uses = std::move(found->second.uses);
    }
    found->second.uses.clear();
    state_->stats.cached_bytes -= bytes;
    state_->spare.push_back(state_->free.extract(found));
  } else {
    data = state_->allocate(bytes, *device_);
  }
  ++state_->stats.allocations;
  state_->stats.live_bytes += bytes;
  state_->stats.peak_bytes = std::max(state_->stats.peak_bytes, state_->stats.live_bytes);
  return data;
}

void Allocator::release(void* data, int64_t bytes, std::vector<Event> uses) {
  bytes = rounded(bytes);
  const std::lock_guard lock(state_->mutex);
  state_->stats.live_bytes -= bytes;
  state_->stats.cached_bytes += bytes;
  if (state_->spare.empty()) {
    state_->free.emplace(bytes, State::Block{data, std::move(uses)});
  } else {
    State::Free::node_type node = std::move(state_->spare.back());
    state_->spare.pop_back();
    node.key() = bytes;
    node.mapped() = {data, std::move(uses)};
    state_->free.insert(std::move(node));
  }
  state_->trim_to(state_->cache_limit, *device_);
}

void Allocator::trim() {
  const std::lock_guard lock(state_->mutex);
  state_->trim_to(0, *device_);
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

struct Buffer::Block {
  // Of memory of a device that runs late.
  struct Uses {
    std::mutex mutex;
    Event write;               // the last
    std::vector<Event> reads;  // after it
  };

  Block(std::shared_ptr<Allocator> from, int64_t size) : allocator(std::move(from)), bytes(size) {
    if (allocator->device()->is_host()) {
      data = allocator->allocate(bytes);
    } else {
      uses = std::make_unique<Uses>();
      data = allocator->allocate(bytes, &uses->reads);
    }
  }
  ~Block() {
    std::vector<Event> last;
    if (uses != nullptr) {
      last = std::move(uses->reads);
      last.push_back(uses->write);
    }
    allocator->release(data, bytes, std::move(last));
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::shared_ptr<Allocator> allocator;
  int64_t bytes;
  void* data = nullptr;
  std::unique_ptr<Uses> uses;
};

Buffer Buffer::allocate(std::shared_ptr<Allocator> allocator, int64_t bytes) {
  Buffer buffer;
  buffer.block_ = std::make_shared<Block>(std::move(allocator), bytes);
  buffer.data_ = static_cast<std::byte*>(buffer.block_->data);
  buffer.bytes_ = bytes;
  return buffer;
}

Device& Buffer::device() const { return *block_->allocator->device(); }

void Buffer::read(int64_t offset, std::span<std::byte> to) const {
  const auto size = static_cast<int64_t>(to.size());
  if (device().is_registered(to.data(), size)) {
    read_registered(offset, to);
    return;
  }
  const Buffer staging = allocate(device().staging(), std::min(size, kMostStaged));
  for (int64_t at = 0; at < size; at += kMostStaged) {
    const auto part =
        to.subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(size - at, kMostStaged)));
    read_registered(offset + at, {staging.data(), part.size()});
    std::copy_n(staging.data(), part.size(), part.data());
  }
}

void Buffer::read_registered(int64_t offset, std::span<std::byte> to) const {
  Submission work(device(), Device::Use::kCopies);
  work.reads(*this);
  if (!to.empty()) {
    work.queue().copy(to.data(), data_ + offset, static_cast<int64_t>(to.size()));
  }
  const Event end = work.finish();
  end.settle();
  // What the copy would say of a failure is said of the memory that has no result, whoever asks it next.
  if (block_->uses != nullptr) {
    const std::lock_guard lock(block_->uses->mutex);
    block_->uses->write.wait();
  }
  end.wait();
}

void Buffer::write(int64_t offset, const Buffer& from, int64_t bytes) const {
  Submission work(device(), Device::Use::kCopies);
  work.writes(*this);
  if (bytes > 0) {
    work.queue().copy(data_ + offset, from.data(), bytes, from.block_);
  }
  work.finish();
}

void Buffer::before_read(Queue& queue) const {
  if (block_->uses != nullptr) {
    const std::lock_guard lock(block_->uses->mutex);
    queue.wait(block_->uses->write, /*needed=*/true);
  }
}

void Buffer::before_write(Queue& queue) const {
  if (block_->uses == nullptr) {
    return;
  }
  const std::lock_guard lock(block_->uses->mutex);
  queue.wait(block_->uses->write, /*needed=*/false);
  for (const Event& read : block_->uses->reads) {
    queue.wait(read, /*needed=*/false);
  }
}

void Buffer::note_read(const Event& event) const {
  if (block_->uses != nullptr) {
    const std::lock_guard lock(block_->uses->mutex);
    std::erase_if(block_->uses->reads, [](const Event& read) { return read.done(); });
    block_->uses->reads.push_back(event);
  }
}

void Buffer::note_write(const Event& event) const {
  if (block_->uses != nullptr) {
    const std::lock_guard lock(block_->uses->mutex);
    block_->uses->reads.clear();
    block_->uses->write = event;
  }
}

Submission::Submission(Device& device, Device::Use use) : queue_(device.queue(use)) {
  if (!device.is_host()) {
    lock_ = std::unique_lock(queue_.mutex);
  }
}

Submission::~Submission() {
  if (lock_.owns_lock()) {
    try {
      queue_.record().settle();
    } catch (...) {  // NOLINT(bugprone-empty-catch): what ended this says that the device failed
    }
  }
}

void Submission::reads(const Buffer& buffer) {
  if (lock_.owns_lock()) {
    buffer.before_read(queue_);
    read_.push_back(buffer);
  }
}

void Submission::writes(const Buffer& buffer) {
  if (lock_.owns_lock()) {
    buffer.before_write(queue_);
    written_.push_back(buffer);
  }
}

Event Submission::finish() {
  if (!lock_.owns_lock()) {
    return {};
  }
  const Event end = queue_.record();
  for (const Buffer& buffer : read_) {
    buffer.note_read(end);
  }
  for (const Buffer& buffer : written_) {
    buffer.note_write(end);
  }
  lock_.unlock();
  return end;
}

}  // namespace mstrain
