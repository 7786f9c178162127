// Loops over threads. Work is cut into one contiguous chunk per thread, so that results depend on the thread count only.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace mstrain::cpu {

// Below this many element operations a loop runs on the calling thread: starting a team costs microseconds.
inline constexpr int64_t kSerialWork = 24 * 1024;

// The part of [0, n) that chunk `i` of `chunks` takes; boundaries are multiples of `unit`.
struct Range {
  int64_t begin, end;
};
inline Range chunk_of(int64_t n, int64_t unit, int i, int chunks) {
  const int64_t units = (n + unit - 1) / unit;
  return {std::min(n, units * i / chunks * unit), std::min(n, units * (i + 1) / chunks * unit)};
}

// How many threads `work` element operations in `pieces` independent pieces deserve.
inline int useful_threads(int threads, int64_t pieces, int64_t work) {
  return work <= kSerialWork
             ? 1
             : static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, pieces)));
}

// Calls f(begin, end, chunk) for every non-empty chunk of [0, n). f must not throw.
template <class F>
void parallel_chunks(int threads, int64_t n, int64_t unit, F&& f) {
  if (threads <= 1) {
    if (n > 0) {
      f(int64_t{0}, n, 0);
    }
    return;
  }
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int i = 0; i < threads; ++i) {
    const Range range = chunk_of(n, unit, i, threads);
    if (range.begin < range.end) {
      f(range.begin, range.end, i);
    }
  }
}

// Calls f(item, thread) for items 0 … n-1, handed out as threads become free. For items that write disjoint results.
template <class F>
void parallel_items(int threads, int64_t n, F&& f) {
  if (threads <= 1) {
    for (int64_t item = 0; item < n; ++item) {
      f(item, 0);
    }
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t item = 0; item < n; ++item) {
    f(item, omp_get_thread_num());
  }
}

}  // namespace mstrain::cpu
