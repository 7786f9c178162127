// The host as a device: its queue does things when it is told to, and its memory is what the system gives.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/base/error.h"
#include "core/runtime/buffer.h"
#include "core/runtime/device.h"

namespace mstrain {
namespace {

constexpr int64_t kBlockAlignment = 64;
constexpr int64_t kFromHugePages = int64_t{4} << 20;
constexpr int64_t kHugePage = int64_t{2} << 20;

class HostQueue : public Queue {
 public:
  void submit(std::function<void()> work) override { work(); }
  void wait(const Event& event, bool needed) override { needed ? event.wait() : event.settle(); }
  Event record() override { return {}; }
  void copy(void* to, const void* from, int64_t bytes, std::shared_ptr<const void>) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
};

class HostDevice : public Device {
 public:
  std::string name() const override { return "cpu"; }
  bool is_host() const override { return true; }

  // Large blocks lie on huge pages.
  void* allocate(int64_t bytes) override {
    const bool large = bytes >= kFromHugePages;
    void* data = nullptr;
    const int error =
        posix_memalign(&data, static_cast<size_t>(large ? kHugePage : kBlockAlignment),
                       static_cast<size_t>(bytes));
    check(error == 0, "out of memory: {} bytes could not be allocated", bytes);
    if (large) {
      // A hint: failure changes nothing but speed. A huge page that the block fills in part only would cost memory.
      madvise(data, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
    }
    return data;
  }
  void release(void* data, int64_t) override { std::free(data); }
  Queue& queue(Use) override { return queue_; }
  std::shared_ptr<Allocator> staging() override {
    static const auto memory = std::make_shared<Allocator>(Allocator::kCacheLimit, host_device());
    return memory;
  }

 private:
  HostQueue queue_;
};

}  // namespace

const std::shared_ptr<Device>& host_device() {
  static const std::shared_ptr<Device> device = std::make_shared<HostDevice>();
  return device;
}

}  // namespace mstrain
