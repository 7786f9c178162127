// Memory of the host that a device knows: what its queues copy from and to.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "core/runtime/device.h"

namespace mstrain {

class StagingMemory : public Device {
 public:
  using Allocate = std::function<void*(int64_t bytes)>;
  using Release = std::function<void(void* data, int64_t bytes)>;

  StagingMemory(Allocate allocate, Release release)
      : allocate_(std::move(allocate)), release_(std::move(release)) {}

  std::string name() const override { return "staging"; }
  bool is_host() const override { return true; }
  void* allocate(int64_t bytes) override;
  void release(void* data, int64_t bytes) override;
  Queue& queue(Use use) override { return host_->queue(use); }
  std::shared_ptr<Allocator> staging() override { return host_->staging(); }

  // Whether all of it lies in one block that was allocated here. Thread-safe.
  bool holds(const void* data, int64_t bytes) const;

 private:
  const std::shared_ptr<Device> host_ = host_device();  // which must outlive it
  const Allocate allocate_;
  const Release release_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, int64_t> blocks_;
};

}  // namespace mstrain
