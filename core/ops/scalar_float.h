// Branch-free single-precision functions that compilers turn into vector instructions (GCC: -O3 -fno-math-errno
// -fno-trapping-math; no fast-math). Plain C++ for host and device compilers.
//
// Bounds are in units in the last place against the exact result, over all finite arguments, with and without fused
// multiply-add; infinities, NaN, overflow and gradual underflow follow IEEE (where the hardware does not flush), the sign
// of a zero result may be lost.
// Polynomials are minimax fits (Lawson's algorithm, then rounded to single precision).
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

MSTRAIN_SCALAR_INLINE int32_t bits_of(float x) { return __builtin_bit_cast(int32_t, x); }
MSTRAIN_SCALAR_INLINE float from_bits(int32_t x) { return __builtin_bit_cast(float, x); }

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kPi = 3.1415927F, kHalfPi = 1.5707964F, kQuarterPi = 0.7853982F;
inline constexpr float kLn2High = 0x1.62e4p-1F;  // 15 bits: its product with an exponent is exact
inline constexpr float kLn2Low = 0x1.7f7d1cp-20F;

// x = n ln 2 + r with |r| <= ln(2)/2. Gives e^r - 1 and scales with 2^n = high * low, each a normal number
// for -150 <= n <= 129.
struct ExpParts {
  float fraction;
  float high;
  float low;
  float inverse_low;
};
MSTRAIN_SCALAR_INLINE ExpParts exp_parts_of(float r, int32_t exponent) {
  float p = 0x1.a1a604p-13F;
  p = p * r + 0x1.6d7b94p-10F;
  p = p * r + 0x1.11108cp-7F;
  p = p * r + 0x1.5554a6p-5F;
  p = p * r + 0x1.555556p-3F;
  p = p * r + 0.5F;
  const int32_t first = exponent >> 1;
  const int32_t second = exponent - first;
  return {(r * r) * p + r, from_bits((first + 127) << 23), from_bits((second + 127) << 23),
          from_bits((127 - second) << 23)};
}
inline constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
MSTRAIN_SCALAR_INLINE ExpParts exp_parts(float x) {
  const float shifted = x * 0x1.715476p0F + kRound;
  const float n = shifted - kRound;
  return exp_parts_of((x - n * kLn2High) - n * kLn2Low, bits_of(shifted) - bits_of(kRound));
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

// x = (4 k + quadrant) π/2 + angle, |angle| <= π/4, exact to 2^-54 for every finite x.
struct Reduced {
  float angle;
  int32_t quadrant;
};
MSTRAIN_SCALAR_INLINE Reduced reduce_angle(float x) {
  // 28-bit pieces of 2^k 2/π mod 4, so that their products with the 24 bits of x / 2^k are exact in double.
  struct Pieces {
    double high[112], middle[112], low[112];
    constexpr Pieces() : high(), middle(), low() {
      constexpr uint64_t kWords[4] = {
          0x28be60db9391054a, 0x7f09d5f47d4d3770, 0x36d8a5664f10e410,
          0x7f9458eaf7aef158};  // 2/π / 4 = 1/(2π), as a binary fraction
      for (int k = 0; k < 112; ++k) {
        double* const parts[3] = {high, middle, low};
        double unit = 4.0;
        for (int part = 0; part < 3; ++part) {
          uint64_t value = 0;
          for (int bit = k + 28 * part; bit < k + 28 * (part + 1); ++bit) {
            value = 2 * value + ((kWords[bit / 64] >> (63 - bit % 64)) & 1U);
          }
          unit *= 0x1p-28;
          parts[part][k] = static_cast<double>(value) * unit;
        }
      }
    }
  };
  static constexpr Pieces kPieces;
  constexpr double kRound = 0x1.8p52;
  const int32_t exponent = ((bits_of(x) >> 23) & 255) - 150;  // |x| < 2^(exponent + 24)
  int32_t k = exponent > 0 ? exponent : 0;
  k = k < 104 ? k : 104;
  const double scaled = static_cast<double>(x * from_bits((127 - k) << 23));
  const double a = scaled * kPieces.high[k];
  const double fours = (a * 0.25 + kRound) - kRound;
  const double b = (a - 4.0 * fours) + (scaled * kPieces.middle[k] + scaled * kPieces.low[k]);
  const double turns = b + kRound;
  const double rest = b - (turns - kRound);
  return {static_cast<float>(rest * 1.5707963267948966),
          static_cast<int32_t>(__builtin_bit_cast(int64_t, turns) & 3)};
}
MSTRAIN_SCALAR_INLINE float sin_or_cos(float angle, int32_t quadrant) {
  const float t2 = angle * angle;
  float s = 0x1.6cd5ecp-19F;
  s = s * t2 + -0x1.a00f94p-13F;
  s = s * t2 + 0x1.111108p-7F;
  s = s * t2 + -0x1.555556p-3F;
  const float sine = (angle * t2) * s + angle;
  float c = -0x1.24290ap-22F;
  c = c * t2 + 0x1.a01118p-16F;
  c = c * t2 + -0x1.6c16b8p-10F;
  c = c * t2 + 0x1.555556p-5F;
  const float cosine = (t2 * t2) * c + (1.0F - 0.5F * t2);
  const float y = (quadrant & 1) != 0 ? cosine : sine;
  return (quadrant & 2) != 0 ? -y : y;
}

// atan of x in [0, 1], by way of π/4 for the larger ones.
MSTRAIN_SCALAR_INLINE float atan_of_unit(float x) {
  const bool large = x > 0.41421357F;  // tan(π/8)
  const float t = large ? (x - 1.0F) / (x + 1.0F) : x;
  const float t2 = t * t;
  float p = -0x1.f1ed82p-5F;
  p = p * t2 + 0x1.b1ec2ep-4F;
  p = p * t2 + -0x1.23b522p-3F;
  p = p * t2 + 0x1.999196p-3F;
  p = p * t2 + -0x1.55554ap-2F;
  const float y = (t * t2) * p + t;
  return large ? kQuarterPi + y : y;
}

// asin of x in [0, 1/2].
MSTRAIN_SCALAR_INLINE float asin_of_half(float x) {
  const float x2 = x * x;
  float p = 0x1.596d32p-5F;
  p = p * x2 + 0x1.8c2832p-6F;
  p = p * x2 + 0x1.747e4cp-5F;
  p = p * x2 + 0x1.3301e4p-4F;
  p = p * x2 + 0x1.5555c8p-3F;
  return (x * x2) * p + x;
}

}  // namespace detail

// 1 ulp.
template <>
MSTRAIN_SCALAR_INLINE float exp(float x) {
  x = x > 89.0F ? 89.0F : x;
  x = x < -104.0F ? -104.0F : x;
  const detail::ExpParts e = detail::exp_parts(x);
  return ((e.fraction + 1.0F) * e.high) * e.low;
}

// 1.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float expm1(float x) {
  x = x > 89.0F ? 89.0F : x;
  x = x < -20.0F ? -20.0F : x;
  const detail::ExpParts e = detail::exp_parts(x);
  return (e.high * e.fraction + (e.high - e.inverse_low)) * e.low;
}

// 1 ulp.
template <>
MSTRAIN_SCALAR_INLINE float log(float x) {
  const bool subnormal = x < 0x1p-126F;
  const detail::LogParts parts = detail::log_parts(subnormal ? x * 0x1p23F : x);
  const float f = parts.mantissa - 1.0F;
  const float n = static_cast<float>(parts.exponent >> 23) - (subnormal ? 23.0F : 0.0F);
  float y = n * detail::kLn2High + (f + (detail::log_tail(f) + n * detail::kLn2Low));
  y = x < detail::kInfinity ? y : x;
  y = x < 0.0F ? detail::kNan : y;
  return x == 0.0F ? -detail::kInfinity : y;
}

// 2 ulp.
template <>
MSTRAIN_SCALAR_INLINE float log1p(float x) {
  const float u = 1.0F + x;
  const float small = x - (u - 1.0F);
  const float large = 1.0F - (u - x);
  const float rest = x < 1.0F ? small : large;  // 1 + x = u + rest
  const detail::LogParts parts = detail::log_parts(u);
  const int32_t bounded = parts.exponent < (126 << 23) ? parts.exponent : (126 << 23);
  const float scale =
      detail::from_bits(static_cast<int32_t>((127U << 23) - static_cast<uint32_t>(bounded)));
  const float f = (parts.mantissa - 1.0F) + rest * scale;
  const float n = static_cast<float>(parts.exponent >> 23);
  float y = n * detail::kLn2High + (f + (detail::log_tail(f) + n * detail::kLn2Low));
  y = x < detail::kInfinity ? y : x;
  y = x < -1.0F ? detail::kNan : y;
  return x == -1.0F ? -detail::kInfinity : y;
}

// 2 ulp.
template <>
MSTRAIN_SCALAR_INLINE float sin(float x) {
  const detail::Reduced r = detail::reduce_angle(x);
  const float y = detail::sin_or_cos(r.angle, r.quadrant);
  return x - x == 0.0F ? y : detail::kNan;
}

// 2 ulp.
template <>
MSTRAIN_SCALAR_INLINE float cos(float x) {
  const detail::Reduced r = detail::reduce_angle(x);
  const float y = detail::sin_or_cos(r.angle, r.quadrant + 1);
  return x - x == 0.0F ? y : detail::kNan;
}

// 1.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float tanh(float x) {
  const float x2 = x * x;
  float p = 0x1.246e24p-9F;
  p = p * x2 + -0x1.0ee566p-7F;
  p = p * x2 + 0x1.6418dap-6F;
  p = p * x2 + -0x1.b9fa8ap-5F;
  p = p * x2 + 0x1.11109ep-3F;
  p = p * x2 + -0x1.555554p-2F;
  const float small = (x * x2) * p + x;
  float a = __builtin_fabsf(x);
  a = a > 10.0F ? 10.0F : a;
  const float large = __builtin_copysignf(1.0F - 2.0F / (exp<float>(2.0F * a) + 1.0F), x);
  return a < 0.6F ? small : large;
}

// 2.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float sigmoid(float x) {
  const float e = exp<float>(-__builtin_fabsf(x));
  return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}

// 1.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float erf(float x) {
  const float x2 = x * x;
  float p = 0x1.6626a2p-14F;
  p = p * x2 + -0x1.acf87ap-11F;
  p = p * x2 + 0x1.551402p-8F;
  p = p * x2 + -0x1.b8162cp-6F;
  p = p * x2 + 0x1.ce2e60p-4F;
  p = p * x2 + -0x1.812744p-2F;
  p = p * x2 + 0x1.06eba8p-3F;
  const float small = x * p + x;
  // erfc(a) = exp(-a q(a))
  float a = __builtin_fabsf(x);
  a = a > 4.0F ? 4.0F : a;
  float q = 0x1.6928a0p-17F;
  q = q * a + -0x1.4d82fep-12F;
  q = q * a + 0x1.dadd38p-9F;
  q = q * a + -0x1.84a1bcp-6F;
  q = q * a + 0x1.b2f1ccp-4F;
  q = q * a + 0x1.453682p-1F;
  q = q * a + 0x1.20ee9ep+0F;
  const float large = __builtin_copysignf(1.0F - exp<float>(-(a * q)), x);
  return a < 0.9F ? small : large;
}

// 1 ulp.
template <>
MSTRAIN_SCALAR_INLINE float exp2(float x) {
  x = x > 129.0F ? 129.0F : x;
  x = x < -150.0F ? -150.0F : x;
  const float shifted = x + detail::kRound;
  const float r = (x - (shifted - detail::kRound)) * 0x1.62e43p-1F;
  const detail::ExpParts e =
      detail::exp_parts_of(r, detail::bits_of(shifted) - detail::bits_of(detail::kRound));
  return ((e.fraction + 1.0F) * e.high) * e.low;
}

// 2 ulp; exact for powers of two.
template <>
MSTRAIN_SCALAR_INLINE float log2(float x) {
  const bool subnormal = x < 0x1p-126F;
  const detail::LogParts parts = detail::log_parts(subnormal ? x * 0x1p23F : x);
  const float f = parts.mantissa - 1.0F;
  const float n = static_cast<float>(parts.exponent >> 23) - (subnormal ? 23.0F : 0.0F);
  constexpr float kRest = 0.44269504F;  // log2(e) - 1
  const float tail = detail::log_tail(f);
  float y = n + (f + (tail + kRest * (f + tail)));
  y = x < detail::kInfinity ? y : x;
  y = x < 0.0F ? detail::kNan : y;
  return x == 0.0F ? -detail::kInfinity : y;
}

// 2.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float log10(float x) {
  return log<float>(x) * 0.4342945F;
}

// 1 ulp: a third of the logarithm, and two steps of Newton's method.
template <>
MSTRAIN_SCALAR_INLINE float cbrt(float x) {
  const float a = __builtin_fabsf(x);
  const bool plain = a > 0.0F && a < detail::kInfinity;
  const bool subnormal = a < 0x1p-126F;
  const float b = plain ? (subnormal ? a * 0x1p24F : a) : 1.0F;
  float y = exp<float>(log<float>(b) * 0.33333334F);
  y = y - (y - b / (y * y)) * 0.33333334F;
  y = y - (y - b / (y * y)) * 0.33333334F;
  y = subnormal ? y * 0x1p-8F : y;
  return plain ? __builtin_copysignf(y, x) : x;
}

// 3.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float tan(float x) {
  const detail::Reduced r = detail::reduce_angle(x);
  const float y =
      detail::sin_or_cos(r.angle, r.quadrant) / detail::sin_or_cos(r.angle, r.quadrant + 1);
  return x - x == 0.0F ? y : detail::kNan;
}

// 2.5 ulp. asin a = π/2 - 2 asin √((1 - a)/2).
template <>
MSTRAIN_SCALAR_INLINE float asin(float x) {
  const float a = __builtin_fabsf(x);
  const bool large = a > 0.5F;
  const float t = large ? __builtin_sqrtf(0.5F - 0.5F * a) : a;
  const float s = detail::asin_of_half(t);
  const float y = __builtin_copysignf(large ? detail::kHalfPi - 2.0F * s : s, x);
  return a <= 1.0F ? y : detail::kNan;
}

// 2 ulp.
template <>
MSTRAIN_SCALAR_INLINE float acos(float x) {
  const float a = __builtin_fabsf(x);
  const bool large = a > 0.5F;
  const float t = large ? __builtin_sqrtf(0.5F - 0.5F * a) : a;
  const float s = detail::asin_of_half(t);
  const float near_one = x < 0.0F ? detail::kPi - 2.0F * s : 2.0F * s;
  const float y = large ? near_one : detail::kHalfPi - __builtin_copysignf(s, x);
  return a <= 1.0F ? y : detail::kNan;
}

// 3 ulp.
template <>
MSTRAIN_SCALAR_INLINE float atan(float x) {
  const float a = __builtin_fabsf(x);
  const bool large = a > 1.0F;
  const float y = detail::atan_of_unit(large ? 1.0F / a : a);
  return __builtin_copysignf(large ? detail::kHalfPi - y : y, x);
}

// 3.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float angle_of(float y, float x) {
  const float a = __builtin_fabsf(y);
  const float b = __builtin_fabsf(x);
  const float more = a > b ? a : b;
  const float less = a > b ? b : a;
  const float ratio = less == more ? (more == 0.0F ? 0.0F : 1.0F) : less / more;
  float angle = detail::atan_of_unit(ratio);
  angle = a > b ? detail::kHalfPi - angle : angle;
  angle = __builtin_copysignf(1.0F, x) < 0.0F ? detail::kPi - angle : angle;
  angle = __builtin_copysignf(angle, y);
  return (x != x) | (y != y) ? detail::kNan : angle;
}

template <>
MSTRAIN_SCALAR_INLINE float length_of(float x, float y) {
  const double a = static_cast<double>(x);
  const double b = static_cast<double>(y);
  const bool infinite =
      (__builtin_fabsf(x) == detail::kInfinity) | (__builtin_fabsf(y) == detail::kInfinity);
  return infinite ? detail::kInfinity : static_cast<float>(__builtin_sqrt(a * a + b * b));
}

// 3 ulp: large ones from the square of e^(a/2), which overflows where they do.
template <>
MSTRAIN_SCALAR_INLINE float sinh(float x) {
  const float a = __builtin_fabsf(x);
  const float e = expm1<float>(a);
  const float small = 0.5F * (e + e / (e + 1.0F));
  const float h = exp<float>(0.5F * a);
  const float large = (0.5F * h) * h;
  return __builtin_copysignf(a < 10.0F ? small : large, x);
}

// 3 ulp.
template <>
MSTRAIN_SCALAR_INLINE float cosh(float x) {
  const float a = __builtin_fabsf(x);
  const float h = exp<float>(0.5F * a);
  const float e = exp<float>(a);
  return a < 10.0F ? 0.5F * (e + 1.0F / e) : (0.5F * h) * h;
}

// 2.5 ulp. Where a² might overflow: ln 2a.
template <>
MSTRAIN_SCALAR_INLINE float asinh(float x) {
  const float a = __builtin_fabsf(x);
  const float a2 = a * a;
  const float small = log1p<float>(a + a2 / (1.0F + __builtin_sqrtf(1.0F + a2)));
  const float large = log<float>(a) + 0.6931472F;
  return __builtin_copysignf(a < 1e9F ? small : large, x);
}

// 2.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float acosh(float x) {
  const float t = x - 1.0F;
  const float small = log1p<float>(t + __builtin_sqrtf(t * (t + 2.0F)));
  const float large = log<float>(x) + 0.6931472F;
  const float y = x < 1e9F ? small : large;
  return x < 1.0F ? detail::kNan : y;
}

// 2.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float atanh(float x) {
  const float a = __builtin_fabsf(x);
  return __builtin_copysignf(0.5F * log1p<float>(2.0F * a / (1.0F - a)), x);
}

// ½ (1 + tanh u) is sigmoid(2u), which loses nothing where x is negative. 2u of gelu_tanh:
namespace detail {
inline constexpr float kGeluLinear = 1.5957691F;   // 2 √(2/π)
inline constexpr float kGeluCubic = 0.071354814F;  // 2 √(2/π) 0.044715
}  // namespace detail

// 8 ulp while |x| < 2, 40 while |x| < 5: an error of the exponent's argument grows with it.
template <>
MSTRAIN_SCALAR_INLINE float gelu_tanh(float x) {
  return from_lowest(x) * sigmoid<float>(x * (detail::kGeluLinear + detail::kGeluCubic * (x * x)));
}

template <>
MSTRAIN_SCALAR_INLINE float gelu_tanh_grad(float x, float g) {
  x = within_gelu(x);
  const float x2 = x * x;
  const float u2 = x * (detail::kGeluLinear + detail::kGeluCubic * x2);
  const float e = exp<float>(-__builtin_fabsf(u2));
  const float inverse = 1.0F / (1.0F + e);
  const float s = (u2 < 0.0F ? e : 1.0F) * inverse;  // sigmoid; its derivative is e / (1 + e)²
  const float slope = detail::kGeluLinear + 3.0F * detail::kGeluCubic * x2;
  return g * (s + (x * slope) * (e * inverse * inverse));
}

}  // namespace mstrain::scalar
