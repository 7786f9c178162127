#include "core/runtime/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr int64_t kGuardedPage = 4096;
constexpr int64_t kRoom = int64_t{1}
                          << 36;  // of addresses: pages are the system's until they are written

// Where the handler looks; 0: free.
std::array<std::atomic<uintptr_t>, GuardedMemory::kMost> guarded_places;
struct sigaction previous_action;

// Only what may be called in a handler.
void say_who_touched(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const auto& place : guarded_places) {
    const uintptr_t begin = place.load();
    if (begin != 0 && address >= begin && address < begin + static_cast<uintptr_t>(kRoom)) {
      constexpr std::string_view kMessage =
          "mstrain: the host touched memory of a device outside the device's kernels; HostRead and "
          "HostWrite (core/tensor/host.h) are the way in\n";
      [[maybe_unused]] const ssize_t written =
          ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    }
  }
  // What was there before sees the same fault again, and shows where it is.
  sigaction(SIGSEGV, &previous_action, nullptr);
}

void watch_faults() {
  static const bool watched = [] {
    struct sigaction action = {};
    action.sa_sigaction = say_who_touched;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, &previous_action) == 0;
  }();
  check(watched, "the handler of memory faults cannot be installed");
}

std::byte* reserve(int protection) {
  void* const data = mmap(nullptr, static_cast<size_t>(kRoom), protection,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(data != MAP_FAILED, "{} bytes of addresses cannot be reserved: {}", kRoom,
        std::generic_category().message(errno));
  return static_cast<std::byte*>(data);
}

int64_t whole_pages(int64_t bytes) {
  return (bytes + kGuardedPage - 1) / kGuardedPage * kGuardedPage;
}

// Bytes from the beginning of what reserve() gave; -1: elsewhere.
int64_t place_in(const std::byte* room, const void* data) {
  const auto at = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(room);
  return at < static_cast<uintptr_t>(kRoom) ? static_cast<int64_t>(at) : -1;
}

}  // namespace

GuardedMemory::GuardedMemory()
    : guarded_(reserve(PROT_NONE)), open_(reserve(PROT_READ | PROT_WRITE)) {
  watch_faults();
  for (auto& place : guarded_places) {
    uintptr_t free = 0;
    if (place.compare_exchange_strong(free, reinterpret_cast<uintptr_t>(guarded_))) {
      return;
    }
  }
  fail("more than {} devices of guarded memory", kMost);
}

GuardedMemory::~GuardedMemory() {
  for (auto& place : guarded_places) {
    auto ours = reinterpret_cast<uintptr_t>(guarded_);
    place.compare_exchange_strong(ours, 0);
  }
  munmap(guarded_, static_cast<size_t>(kRoom));
  munmap(open_, static_cast<size_t>(kRoom));
}

void* GuardedMemory::allocate(int64_t bytes) {
  const int64_t size = whole_pages(bytes);
  const std::lock_guard lock(mutex_);
  if (const auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
    const int64_t place = found->second.back();
    found->second.pop_back();
    return guarded_ + place;
  }
  check(size <= kRoom - used_, "out of memory: {} bytes could not be allocated", bytes);
  used_ += size;
  return guarded_ + (used_ - size);
}

void GuardedMemory::release(void* data, int64_t bytes) {
  const int64_t size = whole_pages(bytes);
  madvise(open(data), static_cast<size_t>(size), MADV_DONTNEED);
  const std::lock_guard lock(mutex_);
  free_[size].push_back(static_cast<std::byte*>(data) - guarded_);
}

void* GuardedMemory::open(void* data) const {
  const int64_t at = place_in(guarded_, data);
  return at >= 0 ? open_ + at : data;
}

bool GuardedMemory::holds(const void* data) const {
  return place_in(guarded_, data) >= 0 || place_in(open_, data) >= 0;
}

}  // namespace mstrain
