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

// Positions by the ids that stand there, equal ids by their positions: id and position as one number. An id outside comes last.
inline constexpr int kChunk = 1024;  // that one block sorts
inline constexpr uint64_t kNoRow = 0xffffffffU;
inline uint64_t row_of(uint64_t key) { return key >> 32; }
inline int64_t position_of(uint64_t key) { return static_cast<int64_t>(key & 0xffffffffU); }

// Sorts chunk `chunk` of `count` ids into the same places of `sorted`, by Batcher's bitonic network. `width`: a power of two, no
// less than a chunk has; twice the threads or fewer.
template <int operation, int width, class Ids>
void sort_chunk(int64_t chunk, const Ids& ids, int64_t count, int64_t limit, void* report,
                const Global<uint64_t>& sorted) {
  MSTRAIN_SHARED(uint64_t, keys, width);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int64_t begin = chunk * kChunk;
  for (int k = thread; k < width; k += threads) {
    const int64_t at = begin + k;
    uint64_t key = ~uint64_t(0);
    if (at < count) {
      const int64_t id = int64_t(ids[at]);
      const bool inside = id >= 0 && id < limit;
      checked_id<operation>(id, at, limit, report);
      key = (inside ? uint64_t(id) : kNoRow) << 32 | uint64_t(at);
    }
    keys[k] = key;
  }
  __syncthreads();
  for (int run = 2; run <= width; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int pair = thread; pair < width / 2; pair += threads) {
        const int first = pair / step * step * 2 + pair % step, second = first + step;
        const uint64_t x = keys[first], y = keys[second];
        if ((x < y) != ((first & run) == 0)) {
          keys[first] = y;
          keys[second] = x;
        }
      }
      __syncthreads();
    }
  }
  for (int k = thread; k < width; k += threads) {
    if (begin + k < count) {
      sorted[begin + k] = keys[k];
    }
  }
}

// The place of number `i` of sorted chunks among all of them.
template <class Keys>
int64_t place_of(const Keys& sorted, int64_t count, int64_t i) {
  const uint64_t key = sorted[i];
  int64_t place = i % kChunk;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    if (begin == i / kChunk * kChunk) {
      continue;
    }
    int64_t low = begin, high = begin + kChunk < count ? begin + kChunk : count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (uint64_t(sorted[middle]) < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    place += low - begin;
  }
  return place;
}

}  // namespace mstrain::cuda
