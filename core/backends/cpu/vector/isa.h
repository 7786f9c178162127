// Included first by the sources of this folder, each of which is compiled once per instruction set with MSTRAIN_ISA
// naming it. Everything that they define lies in a namespace of that name, also the scalar functions: the linker keeps
// one copy of an inline function, and must not give code for newer processors to common code.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#ifndef MSTRAIN_ISA
#error "MSTRAIN_ISA must name the instruction set that this source is compiled for"
#endif

#define MSTRAIN_JOIN_NAMES(a, b) a##b
#define MSTRAIN_JOIN(a, b) MSTRAIN_JOIN_NAMES(a, b)
#define scalar MSTRAIN_JOIN(scalar_, MSTRAIN_ISA)
#include "core/ops/scalar_math.h"

// One iteration never reads what another one writes; the output may be one of the inputs.
#define MSTRAIN_INDEPENDENT _Pragma("GCC ivdep")
// All of a short loop at once, so that arrays which it walks stay in registers.
#define MSTRAIN_UNROLLED _Pragma("GCC unroll 16")
// Scalar functions must be inlined before a loop can be vectorised.
#define MSTRAIN_FLATTEN __attribute__((flatten))
#define MSTRAIN_ALWAYS_INLINE __attribute__((always_inline)) inline

namespace mstrain::cpu::MSTRAIN_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

// A register full of T, and the same at any address.
template <class T>
struct Simd {
  static constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  typedef T Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(T)), may_alias));
};
template <class T>
using Vector = typename Simd<T>::Vector;

template <class T>
MSTRAIN_ALWAYS_INLINE Vector<T> load(const T* p) {
  return *reinterpret_cast<const typename Simd<T>::Unaligned*>(p);
}
template <class T>
MSTRAIN_ALWAYS_INLINE void store(T* p, Vector<T> v) {
  *reinterpret_cast<typename Simd<T>::Unaligned*>(p) = v;
}
template <class T>
MSTRAIN_ALWAYS_INLINE Vector<T> splat(T x) {
  return x - Vector<T>{};
}

// Lanes i and i + width change places in each group of 2 width lanes. One instruction; Highway would bring vector types
// of its own for it.
template <int width, class V>
MSTRAIN_ALWAYS_INLINE V swap_lanes(V v) {
  constexpr size_t kLanes = sizeof(v) / sizeof(v[0]);
  return [&]<size_t... lane>(std::index_sequence<lane...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(v, v, (static_cast<int>(lane) ^ width)...);
  }
  (std::make_index_sequence<kLanes>());
}

// All lanes folded into one by the associative, commutative f.
template <class T, class Function>
MSTRAIN_ALWAYS_INLINE T fold_lanes(Vector<T> v, Function f) {
  constexpr int kLanes = Simd<T>::kLanes;
  if constexpr (kLanes == 16) {
    v = f(v, swap_lanes<8>(v));
  }
  if constexpr (kLanes >= 8) {
    v = f(v, swap_lanes<4>(v));
  }
  if constexpr (kLanes >= 4) {
    v = f(v, swap_lanes<2>(v));
  }
  return f(v, swap_lanes<1>(v))[0];
}
template <class T>
MSTRAIN_ALWAYS_INLINE T sum_lanes(Vector<T> v) {
  return fold_lanes<T>(v, [](auto a, auto b) { return a + b; });
}

// A scalar function on every lane: compilers make one vector of it.
template <float (*f)(float)>
MSTRAIN_ALWAYS_INLINE Vector<float> each_lane(Vector<float> v) {
  float lanes[Simd<float>::kLanes];
  store(lanes, v);
  for (float& lane : lanes) {
    lane = f(lane);
  }
  return load(lanes);
}

}  // namespace mstrain::cpu::MSTRAIN_ISA
