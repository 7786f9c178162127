// Reductions of one dense row, for the sources of this folder (after isa.h).
#pragma once

#include <algorithm>

namespace mstrain::cpu::MSTRAIN_ISA {

// Each partial sum has 64 terms.
template <class T>
inline constexpr int64_t kSumBlock = 64 * 4 * Simd<T>::kLanes;

// Sum of f(x[i], y[i]) in four vectors of partial sums; n is at most a few thousand.
template <class T, class Function>
MSTRAIN_ALWAYS_INLINE T sum_block(int64_t n, const T* x, const T* y, Function f) {
  constexpr int kLanes = Simd<T>::kLanes;
  Vector<T> s0{}, s1{}, s2{}, s3{};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    s0 += f(load(x + i), load(y + i));
    s1 += f(load(x + i + kLanes), load(y + i + kLanes));
    s2 += f(load(x + i + 2 * kLanes), load(y + i + 2 * kLanes));
    s3 += f(load(x + i + 3 * kLanes), load(y + i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) {
    s0 += f(load(x + i), load(y + i));
  }
  T rest = 0;
  for (; i < n; ++i) {
    rest += f(x[i], y[i]);
  }
  return sum_lanes<T>((s0 + s1) + (s2 + s3)) + rest;
}

// The same for rows of any length: blocks are added in double.
template <class T, class Function>
MSTRAIN_ALWAYS_INLINE double sum_blocks(int64_t n, const T* x, const T* y, Function f) {
  if (n <= kSumBlock<T>) {
    return static_cast<double>(sum_block(n, x, y, f));
  }
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSumBlock<T>) {
    total +=
        static_cast<double>(sum_block(std::min(kSumBlock<T>, n - begin), x + begin, y + begin, f));
  }
  return total;
}

// Folds with `f`, which must be associative and commutative; `start` is its identity.
template <class T, class Function>
MSTRAIN_ALWAYS_INLINE T fold(int64_t n, const T* x, T start, Function f) {
  constexpr int kLanes = Simd<T>::kLanes;
  T result = start;
  int64_t i = 0;
  if (n >= kLanes) {
    Vector<T> a = splat(start);
    Vector<T> b = splat(start);
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      a = f(a, load(x + i));
      b = f(b, load(x + i + kLanes));
    }
    if (i + kLanes <= n) {
      a = f(a, load(x + i));
      i += kLanes;
    }
    result = fold_lanes<T>(f(a, b), f);
  }
  for (; i < n; ++i) {
    result = f(result, x[i]);
  }
  return result;
}

// NaN wins.
struct Maximum {
  template <class V>
  MSTRAIN_ALWAYS_INLINE V operator()(V m, V x) const {
    return ((x > m) | (x != x)) ? x : m;
  }
};
struct Minimum {
  template <class V>
  MSTRAIN_ALWAYS_INLINE V operator()(V m, V x) const {
    return ((x < m) | (x != x)) ? x : m;
  }
};
struct Product {
  template <class V>
  MSTRAIN_ALWAYS_INLINE V operator()(V m, V x) const {
    return m * x;
  }
};
// Ignores NaN: for shifts that cancel, where the elements themselves carry it on.
struct Larger {
  template <class V>
  MSTRAIN_ALWAYS_INLINE V operator()(V m, V x) const {
    return x > m ? x : m;
  }
};

}  // namespace mstrain::cpu::MSTRAIN_ISA
