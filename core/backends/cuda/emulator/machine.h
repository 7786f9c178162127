// Runs kernels that the host's compiler made of CUDA text (cuda_on_cpu.h), and finds what a card would not say:
//   an access outside the buffers that the kernel was given, or to the wrong side of one that is read alone;
//   two threads at one place between barriers, or two blocks in one launch, one of them writing;
//   shared memory read before it is written;
//   a barrier or a shuffle that some threads of the block or warp do not reach;
//   products of warp groups whose operands or results are touched before they have ended, or whose operands in shared memory
//   were not shown to the units that multiply.
//
// Threads of a block take turns on one host thread, each until it waits, in every other block from the last one on; blocks run
// one after another.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/backends/cuda/emulator/hardware.h"

namespace mstrain::cuda::emulator {

// Memory that a kernel may touch.
struct Region {
  std::string name;  // for errors: "input 2"
  const void* data = nullptr;
  size_t bytes = 0;
  bool writable = false;
};

struct Launch {
  std::string name;  // of the kernel, for errors
  unsigned blocks = 1, threads = 32;
  size_t shared_bytes = 0;  // that it asks for beside declarations
  bool checked = true;      // whether accesses are; else kernels may touch anything, and run faster
  unsigned rows = 1;        // of so many blocks each
};

// Calls `kernel`, a function of a library of kernels, for every thread of the launch; `run_on` is that library's mstrain_run_on.
// Throws Error that says which thread did what. One launch at a time in a process.
void run(const Launch& launch, std::span<const Region> regions, void (*run_on)(Hardware*),
         const std::function<void()>& kernel);

}  // namespace mstrain::cuda::emulator
