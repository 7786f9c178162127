// Ids that kernels read, and where they say which is wrong.
#pragma once

#include "core/backends/cuda/device/kernel.cuh"

namespace mstrain::cuda {

// An id in [0, limit); another one is reported, and 0 stands for it. `operation` counts from 1 in kReporters (text.h).
template <int operation>
int64_t checked_id(int64_t id, int64_t position, int64_t limit, void* report) {
  if (id >= 0 && id < limit) {
    return id;
  }
  const auto to = global<int64_t>(report);
  to[1] = id;
  to[2] = position;
  to[3] = limit;
  to[0] = operation;
  return 0;
}

// What a block adds to one row of a table, in ascending order of position: f(position) for every id that is `row`.
// All threads of the block call it, and each is given every position.
template <class Ids, class F>
void for_positions_of(const Ids& ids, int64_t count, int64_t row, const F& f) {
  constexpr int kIds = 8;  // of a thread at a time
  MSTRAIN_SHARED(uint32_t, found, 1024);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int64_t begin = 0; begin < count; begin += int64_t(threads) * kIds) {
    uint32_t bits = 0;
    for (int j = 0; j < kIds; ++j) {
      const int64_t at = begin + int64_t(thread) * kIds + j;
      bits |= at < count && int64_t(ids[at]) == row ? 1U << j : 0U;
    }
    if (fold_block<Max>(bits != 0 ? 1.0F : 0.0F) == 0.0F) {
      continue;
    }
    found[thread] = bits;
    __syncthreads();
    for (int t = 0; t < threads; ++t) {
      const uint32_t of_thread = found[t];
      for (int j = 0; of_thread >> j != 0; ++j) {
        if ((of_thread >> j & 1U) != 0) {
          f(begin + int64_t(t) * kIds + j);
        }
      }
    }
    __syncthreads();
  }
}

}  // namespace mstrain::cuda
