// Numbers of several environments side by side in a vector register, and sine and cosine of them. Physics are written once over
// a type L of lanes: Lanes<W> in the loops (loops.cc), which are compiled once for each instruction set, W being what a register
// holds; OneLane where an environment is stepped alone. Everything over vectors is inlined: the linker keeps one copy of a
// function, and must not give code for newer processors to common code.
//
// Products and sums are never contracted to fused ones (CMakeLists.txt) but where fused() says so: every set gives the same bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MSTRAIN_LANES __attribute__((always_inline)) inline

namespace mstrain::reinforcement {

struct OneLane {
  static constexpr int kLanes = 1;
  using V = double;
  using I = int64_t;
};

template <int W>
struct Lanes {
  static constexpr int kLanes = W;
  typedef double V __attribute__((vector_size(W * 8)));
  typedef int64_t I __attribute__((vector_size(W * 8)));  // also what comparisons give: 0 or -1
  typedef float F __attribute__((vector_size(W * 4)));
  typedef uint8_t B __attribute__((vector_size(W)));
};

MSTRAIN_LANES bool any_lane(bool mask) { return mask; }
template <class I>
MSTRAIN_LANES bool any_lane(I mask) {
  int64_t all = 0;
  for (size_t i = 0; i < sizeof mask / sizeof(int64_t); ++i) {
    all |= mask[i];
  }
  return all != 0;
}
MSTRAIN_LANES double to_float_and_back(double x) { return static_cast<float>(x); }
template <class V>
MSTRAIN_LANES V to_float_and_back(V x) {
  typedef float F __attribute__((vector_size(sizeof(V) / 2)));
  return __builtin_convertvector(__builtin_convertvector(x, F), V);
}

template <class V, class T>
MSTRAIN_LANES V load_lanes(const T* from) {
  V out;
  std::memcpy(&out, from, sizeof out);
  return out;
}
template <class V, class T>
MSTRAIN_LANES void store_lanes(T* to, const V& from) {
  std::memcpy(to, &from, sizeof from);
}

// The nearest integer, ties to even, for |x| < 2^51; and the largest one that is not above x.
inline constexpr double kRound = 0x1.8p52;
template <class V>
MSTRAIN_LANES V nearest_integer(V x) {
  return (x + kRound) - kRound;
}
template <class V>
MSTRAIN_LANES V floor_lanes(V x) {
  const V near = nearest_integer(x);
  return near > x ? near - 1.0 : near;
}
MSTRAIN_LANES double floor_lanes(double x) { return std::floor(x); }
template <class V>
MSTRAIN_LANES V clamp_lanes(V x, double low, double high) {
  x = x < low ? V{} + low : x;
  return x > high ? V{} + high : x;
}

// a b + c, rounded once: the same everywhere, written out where it is meant.
template <class V>
MSTRAIN_LANES V fused(V a, V b, V c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    return _mm512_fmadd_pd(a, b, c);
  }
#endif
#if defined(__FMA__)
  if constexpr (sizeof(V) == 32) {
    return _mm256_fmadd_pd(a, b, c);
  }
#endif
  V out;
  for (size_t i = 0; i < sizeof(V) / sizeof(double); ++i) {
    out[i] = std::fma(a[i], b[i], c[i]);
  }
  return out;
}
template <class V>
MSTRAIN_LANES V fused(V a, V b, double c) {
  return fused(a, b, V{} + c);
}

// x / divisor, correctly rounded, for a constant whose rounded reciprocal is within 2^-54 of it: one correction of the quotient by a
// fused remainder (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990).
MSTRAIN_LANES double divided(double x, double divisor) { return x / divisor; }
template <class V>
MSTRAIN_LANES V divided(V x, double divisor) {
  const V reciprocal = V{} + 1.0 / divisor;
  const V quotient = x * reciprocal;
  return fused(fused(-quotient, V{} + divisor, x), reciprocal, quotient);
}

// Angles up to which sincos() holds; beyond, an environment is stepped with the standard library's functions.
inline constexpr double kMostAngle = 1e5;

MSTRAIN_LANES void sincos(double x, double& sine, double& cosine) {
  sine = std::sin(x);
  cosine = std::cos(x);
}

// Within 1 unit in the last place for |x| <= kMostAngle. Reduction to |r| <= pi/4 by pi/2 in three parts of 33, 33 and 53 bits
// (Cody and Waite), whose first two products with k are exact, then the terms of the series up to r^17 and r^16, whose rests are below 2^-61.
template <class V>
MSTRAIN_LANES void sincos(V x, V& sine, V& cosine) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHalfPi1 = 0x1.921fb544p0;
  constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
  constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;
  const V shifted = x * kTwoOverPi + kRound;
  const V k = shifted - kRound;
  typedef int64_t I __attribute__((vector_size(sizeof(V))));
  I quadrant;
  std::memcpy(&quadrant, &shifted, sizeof quadrant);

  const V exact = fused(-k, V{} + kHalfPi1, x);
  const V second = k * kHalfPi2;
  const V r = exact - second;
  const V tail = fused(-k, V{} + kHalfPi3, (exact - r) - second);  // r + tail is the angle
  const V z = r * r;

  V s = V{} + 1.0 / 355687428096000.0;  // 17!
  s = fused(s, z, -1.0 / 1307674368000.0);
  s = fused(s, z, 1.0 / 6227020800.0);
  s = fused(s, z, -1.0 / 39916800.0);
  s = fused(s, z, 1.0 / 362880.0);
  s = fused(s, z, -1.0 / 5040.0);
  s = fused(s, z, 1.0 / 120.0);
  s = fused(s, z, -1.0 / 6.0);
  const V half = 0.5 * z;
  s = r + fused(r * z, s, tail * (1.0 - half));

  V c = V{} + 1.0 / 20922789888000.0;  // 16!
  c = fused(c, z, -1.0 / 87178291200.0);
  c = fused(c, z, 1.0 / 479001600.0);
  c = fused(c, z, -1.0 / 3628800.0);
  c = fused(c, z, 1.0 / 40320.0);
  c = fused(c, z, -1.0 / 720.0);
  c = fused(c, z, 1.0 / 24.0);
  const V one = 1.0 - half;
  c = one +
      (((1.0 - one) - half) + fused(z * z, c, -(r * tail)));  // with what `one` was rounded by

  const I swap = (quadrant & 1) != 0;
  const V sin_size = swap ? c : s;
  const V cos_size = swap ? s : c;
  sine = (quadrant & 2) != 0 ? -sin_size : sin_size;
  cosine = ((quadrant + 1) & 2) != 0 ? -cos_size : cos_size;
}

}  // namespace mstrain::reinforcement
