// Kernels most of whose work is done elsewhere: run() in two halves, so that steps in between hide it.
#pragma once

#include "core/ir/kernel.h"

namespace mstrain {

// What such a kernel's run() holds. What start() returns is complete when finish() may be called, with the same memory. Meanwhile
// inputs stay as they are, and nobody else uses outputs and workspace.
struct Halves {
  std::function<Event(const KernelMemory&)> start;
  std::function<void(const KernelMemory&)> finish;

  void operator()(const KernelMemory& memory) const {
    await(start(memory), memory);
    finish(memory);
  }
  // What the queue of `memory` is given from now on comes after `event`; of a queue that calls kernels itself, the call waits.
  static void await(const Event& event, const KernelMemory& memory) {
    if (memory.queue == nullptr || memory.queue->calls_later()) {
      event.wait();
    } else {
      memory.queue->wait(event, /*needed=*/true);
    }
  }
};

// Null where a kernel runs as a whole.
inline const Halves* halves_of(const Kernel& kernel) { return kernel.run.target<Halves>(); }

}  // namespace mstrain
