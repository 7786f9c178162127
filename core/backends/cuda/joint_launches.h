// Launches that become fewer: where a step is captured, kernels that touch no memory of each other's and are alike, as the updates of
// all parameters of one shape are, are launched together, each for its own addresses (`first` in texts).
#pragma once

#include <cstddef>
#include <vector>

#include "core/backends/cuda/driver.h"

namespace mstrain::cuda {

struct TouchedMemory {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool written = false;
};

struct CardLaunch {
  Driver::Handle function = nullptr;
  unsigned blocks = 1, threads = 32, shared_bytes = 0;
  std::vector<void*> pointers;  // of the text
  std::vector<TouchedMemory>
      touched;  // all that it touches, where it may be one of several; empty: it is launched alone
};

// To a stream, alone.
void give_launch(const CardLaunch& launch, Driver::Handle stream);

class JointLaunches {
 public:
  // Keeps it until flush(), before those that touch what it writes, or write what it touches, are given to the stream.
  void add(CardLaunch launch, Driver::Handle stream);
  void flush(Driver::Handle stream);
  void drop() { kept_.clear(); }

 private:
  std::vector<CardLaunch> kept_;  // of all no two depend on each other
};

}  // namespace mstrain::cuda
