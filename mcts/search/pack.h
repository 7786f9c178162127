// Several floats that are computed at once: the width that the compiler was told the machine has.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace mstrain::mcts {

#if defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

using FloatPack = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntPack = int32_t __attribute__((vector_size(kLanes * sizeof(float))));

inline float square_root(float x) {
#if defined(__SSE2__)
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));  // std::sqrt looks for negative x first
#else
  return std::sqrt(x);
#endif
}
inline FloatPack square_root(FloatPack x) {
#if defined(__AVX__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  for (int i = 0; i < kLanes; ++i) {
    x[i] = std::sqrt(x[i]);
  }
  return x;
#endif
}

// b where one of them is no number.
inline float smaller(float a, float b) { return a < b ? a : b; }
inline float larger(float a, float b) {
#if defined(__SSE2__)
  return _mm_cvtss_f32(_mm_max_ss(_mm_set_ss(a), _mm_set_ss(b)));  // without a branch
#else
  return a > b ? a : b;
#endif
}
inline FloatPack smaller(FloatPack a, FloatPack b) {
#if defined(__AVX__)
  return _mm256_min_ps(a, b);
#elif defined(__SSE2__)
  return _mm_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}
inline FloatPack larger(FloatPack a, FloatPack b) {
#if defined(__AVX__)
  return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
  return _mm_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

template <int group, int... lane>
FloatPack exchange(FloatPack x, std::integer_sequence<int, lane...> /*lanes*/) {
  return __builtin_shufflevector(x, x, (lane ^ group)...);
}
// The same pack with its lanes exchanged in groups of `group`, as a butterfly does it.
template <int group>
FloatPack exchange(FloatPack x) {
  return exchange<group>(x, std::make_integer_sequence<int, kLanes>{});
}

// The largest, smallest and sum of the lanes.
template <class Join>
FloatPack across(FloatPack x, Join join) {
  if constexpr (kLanes == 8) {
    x = join(x, exchange<4>(x));
  }
  x = join(x, exchange<2>(x));
  return join(x, exchange<1>(x));
}
inline FloatPack largest_lane(FloatPack x) {
  return across(x, [](FloatPack a, FloatPack b) { return larger(a, b); });
}
inline FloatPack smallest_lane(FloatPack x) {
  return across(x, [](FloatPack a, FloatPack b) { return smaller(a, b); });
}
inline float lane_sum(float x) { return x; }
inline float lane_sum(FloatPack x) {
  return across(x, [](FloatPack a, FloatPack b) { return a + b; })[0];
}

// Bit i is set where lane i of a comparison holds.
inline uint32_t lane_bits(IntPack truth) {
#if defined(__AVX__)
  return static_cast<uint32_t>(_mm256_movemask_ps(std::bit_cast<__m256>(truth)));
#elif defined(__SSE2__)
  return static_cast<uint32_t>(_mm_movemask_ps(std::bit_cast<__m128>(truth)));
#else
  uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) {
    bits |= (truth[i] != 0 ? 1U : 0U) << i;
  }
  return bits;
#endif
}

#if defined(__AVX__)
inline constexpr IntPack kLaneNumbers = {0, 1, 2, 3, 4, 5, 6, 7};
#else
inline constexpr IntPack kLaneNumbers = {0, 1, 2, 3};
#endif

template <class T>
inline void load(const void* from, T& pack) {
  std::memcpy(&pack, from, sizeof(T));
}

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// A load of words that other threads may write meanwhile. Each word is read whole (x86 does not tear aligned words of a vector
// load), which C++ can only say one word at a time; so the instruction is named. The thread sanitizer gets the slow form.
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
inline constexpr bool kLoadsShared = true;
inline void load_shared(const void* from, IntPack& pack) {
  struct [[gnu::packed, gnu::may_alias]] Words {
    int32_t word[kLanes];
  };
  const auto& words = *static_cast<const Words*>(from);
#if defined(__AVX__)
  asm("vmovups %1, %0" : "=x"(pack) : "m"(words));
#else
  asm("movups %1, %0" : "=x"(pack) : "m"(words));
#endif
}
#else
inline constexpr bool kLoadsShared = false;
inline void load_shared(const void*, IntPack&) {}
#endif

// e^x for x in [-87, 0], smaller x give e^-87; relative error below 3e-7. The same bits on every machine.
// Source: x = n log 2 + r, |r| <= log(2) / 2, Taylor polynomial of degree 6 in r.
inline FloatPack fast_exp(FloatPack x) {
  x = larger(x, FloatPack{} - 87.0F);
  const FloatPack scaled = x * 1.44269504F - 0.5F;
  const IntPack n = __builtin_convertvector(scaled, IntPack);  // towards zero: rounds, as x <= 0
  const FloatPack whole = __builtin_convertvector(n, FloatPack);
  const FloatPack r = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;
  const FloatPack p =
      1.0F +
      r * (1.0F + r * (0.5F + r * (0.16666667F +
                                   r * (0.041666667F + r * (0.0083333333F + r * 0.0013888889F)))));
  return p * std::bit_cast<FloatPack>((n + 127) << 23);
}

inline constexpr float kLog[7] = {-2.09964785F,  4.20523484F,  -3.6471204F,   2.22694346F,
                                  -0.852079595F, 0.183700841F, -0.0170296106F};

// Natural logarithm of a normal x > 0; the same bits on every machine. Absolute error below 1e-5 * max(1, |log x|).
// A polynomial through the Chebyshev nodes of [1, 2], without the division of the usual series: this sits on the path from
// one node of a tree to the next.
inline float fast_log(float x) {
#if defined(__SSE2__)  // the same steps without a detour through integer registers
  const __m128i bits = _mm_castps_si128(_mm_set_ss(x));
  const float exponent = _mm_cvtss_f32(_mm_cvtepi32_ps(_mm_srli_epi32(bits, 23))) - 127.0F;
  const float m = _mm_cvtss_f32(_mm_castsi128_ps(
      _mm_or_si128(_mm_and_si128(bits, _mm_set1_epi32(0x7fffff)), _mm_set1_epi32(0x3f800000))));
#else
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits >> 23) - 127);
  const float m = std::bit_cast<float>((bits & 0x7fffffU) | 0x3f800000U);
#endif
  const float m2 = m * m;
  const float low = kLog[0] + kLog[1] * m;
  const float middle = kLog[2] + kLog[3] * m;
  const float high = kLog[4] + kLog[5] * m + kLog[6] * m2;
  return exponent * 0.69314718F + (low + m2 * (middle + m2 * high));
}
// The same bits for each lane.
inline FloatPack fast_log(FloatPack x) {
  const auto bits = std::bit_cast<IntPack>(x);  // of x > 0: no sign
  const FloatPack exponent = __builtin_convertvector(bits >> 23, FloatPack) - 127.0F;
  const auto m = std::bit_cast<FloatPack>((bits & 0x7fffff) | 0x3f800000);
  const FloatPack m2 = m * m;
  const FloatPack low = kLog[0] + kLog[1] * m;
  const FloatPack middle = kLog[2] + kLog[3] * m;
  const FloatPack high = kLog[4] + kLog[5] * m + kLog[6] * m2;
  return exponent * 0.69314718F + (low + m2 * (middle + m2 * high));
}

}  // namespace mstrain::mcts
