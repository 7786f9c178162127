// The logarithm of a sum of exponentials, in one pass (Milakov & Gimelshein 2018).
#pragma once

#include "core/backends/cuda/device/ids.cuh"

namespace mstrain::cuda {

// e^(x - y). Of f32 by a power of two. The difference comes first: multiples of what masks put into scores may have no float.
template <class T>
T exp_of_difference(T x, T y) {
  if constexpr (std::is_same_v<T, float>) {
    const float exponent = (x - y) * static_cast<float>(scalar::kInvLn2);
#ifdef __CUDACC_RTC__
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
#else
    return scalar::exp2<float>(exponent);
#endif
  } else {
    return scalar::exp(x - y);
  }
}

template <class T>
struct LogSumExp {
  T top = -std::numeric_limits<T>::infinity();
  T sum = 0;  // of exp(x - top)

  template <int n>
  void add(const T (&x)[n]) {
    T next = x[0];
#pragma unroll
    for (int j = 1; j < n; ++j) {
      next = scalar::maximum(next, x[j]);
    }
    if (!(next <= top)) {  // NaN too
      sum *= scalar::exp(top - next);
      top = next;
    }
    if (top == -std::numeric_limits<T>::infinity()) {
      return;
    }
#pragma unroll
    for (int j = 0; j < n; ++j) {
      sum += exp_of_difference(x[j], top);
    }
  }
  void join(T other_top, T other_sum) {
    const T next = scalar::maximum(top, other_top);
    // Of nothing, and where all are -inf, the sum stays 0 or counts what is exp(0).
    const T mine = top == next ? sum : sum * scalar::exp(top - next);
    const T theirs = other_top == next ? other_sum : other_sum * scalar::exp(other_top - next);
    top = next;
    sum = mine + theirs;
  }
};

// All threads of the block must call it.
template <class T>
T logsumexp_of_block(LogSumExp<T> of_thread) {
  MSTRAIN_SHARED(T, tops, kMostWarps);
  MSTRAIN_SHARED(T, sums, kMostWarps);
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const T top = __shfl_xor_sync(0xffffffffU, of_thread.top, distance);
    const T sum = __shfl_xor_sync(0xffffffffU, of_thread.sum, distance);
    of_thread.join(top, sum);
  }
  const int thread = static_cast<int>(threadIdx.x);
  if (thread % kWarp == 0) {
    tops[thread / kWarp] = of_thread.top;
    sums[thread / kWarp] = of_thread.sum;
  }
  __syncthreads();
  LogSumExp<T> all;
  for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) {
    all.join(T(tops[w]), T(sums[w]));
  }
  __syncthreads();
  return all.top + scalar::log(all.sum);
}

}  // namespace mstrain::cuda
