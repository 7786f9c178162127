// Which of the library's algorithms makes a product fastest: timed on the card once, and then the same for every run that has the same cache.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/backends/cuda/matmul_library.h"
#include "core/runtime/device.h"

namespace mstrain::cuda {

// A product that could be made now, in several ways.
struct MatmulTrial {
  std::string name;    // all that the library's proposals depend on but the card and the library
  double seconds = 0;  // that it takes at the least
  Queue* queue = nullptr;
  // Gives it to the queue, any number of times. The library's result.
  std::function<int(const MatmulLibrary::Algorithm&)> run;
};

// The proposal to take, the library's first being proposals[0]; none: that, and nothing is remembered. What is found is in the cache
// before it is used: another process with the same card and cache gets the same, and one that runs meanwhile waits for it.
// Throws Error where another process keeps it waiting for a minute.
std::optional<MatmulLibrary::Algorithm> fastest_algorithm(
    const MatmulTrial& trial, std::span<const MatmulLibrary::Choice> proposals);

// From now on the library's first proposals are taken, unless MSTRAIN_CUDA_TUNE=1: ranks do not share a cache.
void take_first_algorithms();

// Logs what was timed since the last call, if anything.
void tell_of_timing();

}  // namespace mstrain::cuda
