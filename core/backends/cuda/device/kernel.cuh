// What the text of a kernel is written with: formats of elements, memory, reductions of a block. Two compilers read it:
// NVRTC, and the host's, to whom emulator/cuda_on_cpu.h is CUDA.
//
// A block is one-dimensional, of whole warps. Results do not depend on the card: every sum has one order.
#pragma once

#ifdef __CUDACC_RTC__
#define MSTRAIN_SHARED(T, name, n) __shared__ __align__(16) T name[n]
// All that the launch asks for: a kernel with it has no other, so that it begins at a multiple of 1024 bytes.
#define MSTRAIN_SHARED_BLOCK(T, name, bytes) extern __shared__ __align__(1024) T name[]
namespace mstrain::cuda {
template <class T>
using Global = T*;
template <class T>
Global<T> global(void* at) {
  return static_cast<T*>(at);
}
}  // namespace mstrain::cuda
#else
#include "core/backends/cuda/emulator/cuda_on_cpu.h"
#endif

#include "core/ops/scalar_convert.h"
#include "core/ops/scalar_math.h"

namespace mstrain::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kMostWarps = 32;  // in a block

// The addresses that a kernel gets: those of its inputs, of its outputs, and of its workspace; then that of its report, and a number.
inline constexpr int kMostPointers = 160;
struct Pointers {
  void* at[kMostPointers];
};
inline uint64_t number_at(void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// How memory stores an element, and what arithmetic holds it as: the types in which the loops of the CPU compute.
// store() takes what any format holds.
template <class S, class H>
struct Plain {
  using Stored = S;
  using Held = H;
  static Held load(Stored x) { return static_cast<Held>(x); }
  template <class From>
  static Stored store(From x) {
    if constexpr (std::is_integral_v<S> && !std::is_integral_v<From>) {
      return scalar::saturate<From, S>(x);
    } else {
      return static_cast<Stored>(x);
    }
  }
};
using F64 = Plain<double, double>;
using F32 = Plain<float, float>;
using I64 = Plain<int64_t, int64_t>;
using I32 = Plain<int32_t, int64_t>;
using I8 = Plain<int8_t, int64_t>;
using U32 = Plain<uint32_t, int64_t>;
using U16 = Plain<uint16_t, int64_t>;
using U8 = Plain<uint8_t, int64_t>;
struct Bool {
  using Stored = uint8_t;
  using Held = bool;
  static bool load(uint8_t x) { return x != 0; }
  template <class From>
  static uint8_t store(From x) {
    return x != 0 ? 1 : 0;
  }
};
struct BF16 {
  using Stored = uint16_t;
  using Held = float;
  static float load(uint16_t x) { return scalar::from_bf16(x); }
  template <class From>
  static uint16_t store(From x) {
    return scalar::to_bf16(static_cast<float>(x));
  }
};
struct F16 {
  using Stored = uint16_t;
  using Held = float;
  static float load(uint16_t x) { return scalar::from_f16(x); }
  template <class From>
  static uint16_t store(From x) {
    return scalar::to_f16(static_cast<float>(x));
  }
};

// x as if it had been in memory.
template <class Format, class From>
typename Format::Held as(From x) {
  return Format::load(Format::store(x));
}

// A number of a text, whose bits say which it is.
template <class Format>
typename Format::Held number(uint64_t bits) {
  return as<Format>(__builtin_bit_cast(double, bits));
}

// Neighbours in memory.
template <class T, int n>
struct alignas(n * sizeof(T) <= 16 ? n * sizeof(T) : 16) Pack {
  T at[n];
};

template <int bytes>
bool is_aligned(const void* at) {
  return (reinterpret_cast<uint64_t>(at) & (bytes - 1)) == 0;
}

// `aligned`: whether a pack lies so that it is one access, or one for each 16 bytes. Without it, that is looked at.
#ifdef __CUDACC_RTC__
template <int n, bool aligned, class T>
Pack<T, n> load_pack(const T* from, int64_t i) {
  if constexpr (aligned) {
    return *reinterpret_cast<const Pack<T, n>*>(from + i);
  } else {
    Pack<T, n> result;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      result.at[j] = from[i + j];
    }
    return result;
  }
}
template <bool aligned, class T, int n>
void store_pack(T* to, int64_t i, const Pack<T, n>& values) {
  if constexpr (aligned) {
    *reinterpret_cast<Pack<T, n>*>(to + i) = values;
  } else {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      to[i + j] = values.at[j];
    }
  }
}
template <int n, class T>
Pack<T, n> load_pack(const T* from, int64_t i) {
  return is_aligned<alignof(Pack<T, n>)>(from + i) ? load_pack<n, true>(from, i)
                                                  : load_pack<n, false>(from, i);
}
template <class T, int n>
void store_pack(T* to, int64_t i, const Pack<T, n>& values) {
  if (is_aligned<alignof(Pack<T, n>)>(to + i)) {
    store_pack<true>(to, i, values);
  } else {
    store_pack<false>(to, i, values);
  }
}
#else
template <int n, bool aligned, class T>
Pack<T, n> load_pack(const Global<const T>& from, int64_t i) {
  Pack<T, n> result;
  for (int j = 0; j < n; ++j) {
    result.at[j] = from[i + j];
  }
  return result;
}
template <bool aligned, class T, int n>
void store_pack(const Global<T>& to, int64_t i, const Pack<T, n>& values) {
  for (int j = 0; j < n; ++j) {
    to[i + j] = values.at[j];
  }
}
template <int n, class T>
Pack<T, n> load_pack(const Global<const T>& from, int64_t i) {
  return load_pack<n, false>(from, i);
}
template <class T, int n>
void store_pack(const Global<T>& to, int64_t i, const Pack<T, n>& values) {
  store_pack<false>(to, i, values);
}
#endif

struct Sum {
  template <class T>
  static T none() {
    return T(0);
  }
  template <class T>
  T operator()(T x, T y) const {
    return x + y;
  }
};
// NaN where either is.
struct Max {
  template <class T>
  static T none() {
    return -std::numeric_limits<T>::infinity();
  }
  template <class T>
  T operator()(T x, T y) const {
    return scalar::maximum(x, y);
  }
};
struct Min {
  template <class T>
  static T none() {
    return std::numeric_limits<T>::infinity();
  }
  template <class T>
  T operator()(T x, T y) const {
    return scalar::minimum(x, y);
  }
};

// All threads of the warp get what `F` makes of their x.
template <class F, class T>
T fold_warp(T x) {
  const F f;
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    x = f(x, __shfl_xor_sync(0xffffffffU, x, distance));
  }
  return x;
}

// All threads of the block get it. All must call it.
template <class F, class T>
T fold_block(T x) {
  MSTRAIN_SHARED(T, of_warp, kMostWarps);
  const F f;
  x = fold_warp<F>(x);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) {
    return x;
  }
  const int thread = static_cast<int>(threadIdx.x);
  if (thread % kWarp == 0) {
    of_warp[thread / kWarp] = x;
  }
  __syncthreads();
  T all = of_warp[0];
  for (int w = 1; w < warps; ++w) {
    all = f(all, T(of_warp[w]));
  }
  __syncthreads();  // before the next one writes there
  return all;
}

}  // namespace mstrain::cuda
