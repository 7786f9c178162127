// CUDA text at work on processors: compiled by the compiler of this build when the test runs, and run by the emulator.
#pragma once

#include <string>

#include "core/backends/cuda/emulator/machine.h"
#include "core/ir/backend.h"

namespace mstrain::cuda {

// A library of kernels. Loaded until the process ends.
class KernelLibrary {
 public:
  // Throws Error with what the compiler said.
  explicit KernelLibrary(const std::string& source);

  // Runs a kernel whose arguments are Pointers.
  void run(const emulator::Launch& launch, std::span<const emulator::Region> regions,
           std::span<void* const> pointers) const;

 private:
  void* library_;
};

// The back end "sm_80 on the cpu": groups, and single operations that could be members of one, are CUDA text under the emulator; what has
// no text is the reference's. A text is compiled with all that were prepared before the first of them runs.
const Backend* emulated_backend();
// The same with what has a text of its own for sm_90a.
const Backend* emulated_backend_of_sm_90a();

// While one lives, kernels of these back ends make zeros: what runs then has its texts compiled together when it runs again.
class OnlyPrepared {
 public:
  OnlyPrepared();
  ~OnlyPrepared();
};

// While one lives, their launches have no more blocks, as those of what is larger than a test can run have no more than a grid may.
class MostBlocks {
 public:
  explicit MostBlocks(int64_t blocks);
  ~MostBlocks();
};

// How many kernels it has run.
int64_t launches();

}  // namespace mstrain::cuda
