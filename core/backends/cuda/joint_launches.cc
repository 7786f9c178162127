#include "core/backends/cuda/joint_launches.h"

#include <algorithm>
#include <array>

#include "core/backends/cuda/text.h"

namespace mstrain::cuda {
namespace {

bool meet(const TouchedMemory& a, const TouchedMemory& b) {
  return (a.written || b.written) && a.begin < b.end && b.begin < a.end;
}
bool depend(const CardLaunch& a, const CardLaunch& b) {
  return std::ranges::any_of(a.touched, [&](const TouchedMemory& x) {
    return std::ranges::any_of(b.touched, [&](const TouchedMemory& y) { return meet(x, y); });
  });
}

// `count` launches whose pointers lie one behind the other.
void give(const CardLaunch& alike, std::array<void*, kMostPointers>& pointers, unsigned count,
          Driver::Handle stream) {
  void* parameters[] = {pointers.data()};
  check_driver(driver().launch(alike.function, alike.blocks, count, 1, alike.threads, 1, 1,
                               alike.shared_bytes, stream, parameters, nullptr),
               "cuLaunchKernel");
}

}  // namespace

void give_launch(const CardLaunch& launch, Driver::Handle stream) {
  std::array<void*, kMostPointers> pointers;
  std::ranges::copy(launch.pointers, pointers.begin());
  give(launch, pointers, 1, stream);
}

void JointLaunches::add(CardLaunch launch, Driver::Handle stream) {
  if (launch.touched.empty()) {
    flush(stream);
    give_launch(launch, stream);
    return;
  }
  if (std::ranges::any_of(kept_, [&](const CardLaunch& it) { return depend(it, launch); })) {
    flush(stream);
  }
  kept_.push_back(std::move(launch));
}

void JointLaunches::flush(Driver::Handle stream) {
  std::vector<CardLaunch> left = std::move(kept_);
  kept_.clear();
  while (!left.empty()) {
    const CardLaunch first = left.front();
    const size_t size = first.pointers.size();
    std::array<void*, kMostPointers> pointers;
    size_t used = 0;
    const auto give_alike = [&] {
      give(first, pointers, static_cast<unsigned>(used / size), stream);
      used = 0;
    };
    std::vector<CardLaunch> others;
    for (CardLaunch& it : left) {
      // Groups of other sizes may be the same function in other numbers of blocks.
      if (it.function != first.function || it.blocks != first.blocks) {
        others.push_back(std::move(it));
        continue;
      }
      if (used + size > pointers.size()) {
        give_alike();
      }
      std::ranges::copy(it.pointers, pointers.begin() + static_cast<std::ptrdiff_t>(used));
      used += size;
    }
    give_alike();
    left = std::move(others);
  }
}

}  // namespace mstrain::cuda
