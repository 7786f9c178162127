// What single-precision functions (scalar_float.h, scalar_angles.h) are declared as and made of.
#pragma once

#include <cstdint>
#include <limits>

#if defined(__GNUC__) && !defined(__CUDACC__)
#define MSTRAIN_SCALAR_INLINE __attribute__((always_inline)) inline
#else
#define MSTRAIN_SCALAR_INLINE inline
#endif

namespace mstrain::scalar {

// Primary templates: scalar_math.h.
template <class T>
T exp(T x);
template <class T>
T expm1(T x);
template <class T>
T log(T x);
template <class T>
T log1p(T x);
template <class T>
T sin(T x);
template <class T>
T cos(T x);
template <class T>
T tanh(T x);
template <class T>
T exp2(T x);
template <class T>
T log2(T x);
template <class T>
T log10(T x);
template <class T>
T cbrt(T x);
template <class T>
T tan(T x);
template <class T>
T asin(T x);
template <class T>
T acos(T x);
template <class T>
T atan(T x);
template <class T>
T sinh(T x);
template <class T>
T cosh(T x);
template <class T>
T asinh(T x);
template <class T>
T acosh(T x);
template <class T>
T atanh(T x);
template <class T>
T erf(T x);
template <class T>
T angle_of(T y, T x);
template <class T>
T length_of(T x, T y);
template <class T>
T sigmoid(T x);
template <class T>
T gelu(T x);
template <class T>
T gelu_grad(T x, T g);
template <class T>
T gelu_tanh(T x);
template <class T>
T gelu_tanh_grad(T x, T g);

// Beyond ±100 the derivatives of gelu are 0 and 1, and their terms would overflow. NaN stays NaN.
template <class T>
MSTRAIN_SCALAR_INLINE T within_gelu(T x) {
  x = x > T(100) ? T(100) : x;
  return x < T(-100) ? T(-100) : x;
}

// x, and for minus infinity the lowest finite number: what falls to zero there as x · 0 would be no number.
template <class T>
MSTRAIN_SCALAR_INLINE T from_lowest(T x) {
  constexpr T kLowest = std::numeric_limits<T>::lowest();
  return x < kLowest ? kLowest : x;
}

namespace detail {

// x / y for 1 <= y <= 2^126. On a card: 2 ulp.
MSTRAIN_SCALAR_INLINE float ratio(float x, float y) {
#ifdef __CUDA_ARCH__
  return __fdividef(x, y);
#else
  return x / y;
#endif
}

MSTRAIN_SCALAR_INLINE int32_t bits_of(float x) { return __builtin_bit_cast(int32_t, x); }
MSTRAIN_SCALAR_INLINE float from_bits(int32_t x) { return __builtin_bit_cast(float, x); }

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kLn2High = 0x1.62e4p-1F;  // 15 bits: its product with an exponent is exact
inline constexpr float kLn2Low = 0x1.7f7d1cp-20F;

// e^r - 1 for |r| <= ln(2)/2.
MSTRAIN_SCALAR_INLINE float exp_fraction(float r) {
  float p = 0x1.a1a604p-13F;
  p = p * r + 0x1.6d7b94p-10F;
  p = p * r + 0x1.11108cp-7F;
  p = p * r + 0x1.5554a6p-5F;
  p = p * r + 0x1.555556p-3F;
  p = p * r + 0.5F;
  return (r * r) * p + r;
}
// x = n ln 2 + r with |r| <= ln(2)/2. Gives e^r - 1 and scales with 2^n = high * low, each a normal number
// for -150 <= n <= 129.
struct ExpParts {
  float fraction;
  float high;
  float low;
  float inverse_low;
};
MSTRAIN_SCALAR_INLINE ExpParts exp_parts_of(float r, int32_t exponent) {
  const int32_t first = exponent >> 1;
  const int32_t second = exponent - first;
  return {exp_fraction(r), from_bits((first + 127) << 23), from_bits((second + 127) << 23),
          from_bits((127 - second) << 23)};
}
inline constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
struct ExpTerms {
  float r;
  int32_t n;
};
MSTRAIN_SCALAR_INLINE ExpTerms exp_terms(float x) {
  const float shifted = x * 0x1.715476p0F + kRound;
  const float n = shifted - kRound;
  return {(x - n * kLn2High) - n * kLn2Low, bits_of(shifted) - bits_of(kRound)};
}
MSTRAIN_SCALAR_INLINE ExpParts exp_parts(float x) {
  const ExpTerms terms = exp_terms(x);
  return exp_parts_of(terms.r, terms.n);
}
// e^x with the bits of exp(x), for |x| <= 87 or NaN: 2^n is one normal number.
MSTRAIN_SCALAR_INLINE float exp_bounded(float x) {
#ifdef __CUDA_ARCH__
  return ::expf(x);
#else
  const ExpTerms terms = exp_terms(x);
  const float scale = from_bits((terms.n + 127) << 23);
  return exp_fraction(terms.r) * scale + scale;
#endif
}

// The same for -inf <= x <= 87, but zero below -87.7: as execution has it, which flushes what is smaller than a normal
// number.
MSTRAIN_SCALAR_INLINE float exp_flushed(float x) {
  return exp_bounded(x < -88.0F ? -88.0F : x);  // 2^-127 is the zero of its bits
}

// log(m) of m = 1 + f in [2/3, 4/3), without its leading term f.
MSTRAIN_SCALAR_INLINE float log_tail(float f) {
  float p = 0x1.fa2d54p-4F;
  p = p * f + -0x1.071bf4p-3F;
  p = p * f + 0x1.b4b0fcp-4F;
  p = p * f + -0x1.f384ccp-4F;
  p = p * f + 0x1.252078p-3F;
  p = p * f + -0x1.55993ap-3F;
  p = p * f + 0x1.9995f6p-3F;
  p = p * f + -0x1.ffff0ep-3F;
  p = p * f + 0x1.555558p-2F;
  return (f * f) * (f * p - 0.5F);
}

// x = m 2^n with m in [2/3, 4/3); in bits, n stands where exponents stand. Any float goes in.
struct LogParts {
  float mantissa;
  int32_t exponent;
};
MSTRAIN_SCALAR_INLINE LogParts log_parts(float x) {
  const auto bits = static_cast<uint32_t>(bits_of(x));
  const uint32_t exponent = (bits - 0x3f2aaaabU) & 0xff800000U;
  return {from_bits(static_cast<int32_t>(bits - exponent)), static_cast<int32_t>(exponent)};
}

// log x = log(1 + f) + n ln 2 of a positive finite x, subnormal ones too.
struct LogTerms {
  float f;
  float n;
};
MSTRAIN_SCALAR_INLINE LogTerms log_terms(float x) {
  const bool subnormal = x < 0x1p-126F;
  const LogParts parts = log_parts(subnormal ? x * 0x1p23F : x);
  return {parts.mantissa - 1.0F,
          static_cast<float>(parts.exponent >> 23) - (subnormal ? 23.0F : 0.0F)};
}

// `y` for a positive finite x; what a logarithm is for the others.
MSTRAIN_SCALAR_INLINE float with_ends_of_log(float x, float y) {
  y = x < kInfinity ? y : x;
  y = x < 0.0F ? kNan : y;
  return x == 0.0F ? -kInfinity : y;
}

}  // namespace detail

}  // namespace mstrain::scalar
