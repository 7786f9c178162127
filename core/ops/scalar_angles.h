// Single-precision functions of angles and planes; what scalar_float.h says of bounds holds here too.
#pragma once

#include "core/ops/scalar_bits.h"

namespace mstrain::scalar {
namespace detail {

inline constexpr float kPi = 3.1415927F, kHalfPi = 1.5707964F, kQuarterPi = 0.7853982F;

// 28-bit pieces of 2^k 2/π mod 4, so that their products with the 24 bits of x / 2^k are exact in double.
constexpr double piece_of_turns(int k, int part) {
  constexpr uint64_t kWords[4] = {0x28be60db9391054a, 0x7f09d5f47d4d3770, 0x36d8a5664f10e410,
                                  0x7f9458eaf7aef158};  // 2/π / 4 = 1/(2π), as a binary fraction
  double unit = 4.0;
  for (int i = 0; i <= part; ++i) {
    unit *= 0x1p-28;
  }
  uint64_t value = 0;
  for (int bit = k + 28 * part; bit < k + 28 * (part + 1); ++bit) {
    value = 2 * value + ((kWords[bit / 64] >> (63 - bit % 64)) & 1U);
  }
  return static_cast<double>(value) * unit;
}

#ifdef __CUDACC_RTC__
// A card makes them as it goes.
struct Pieces {
  double high, middle, low;
  explicit Pieces(int k)
      : high(piece_of_turns(k, 0)), middle(piece_of_turns(k, 1)), low(piece_of_turns(k, 2)) {}
};
#else
struct PieceTable {
  double at[3][112];
  constexpr PieceTable() : at() {
    for (int part = 0; part < 3; ++part) {
      for (int k = 0; k < 112; ++k) {
        at[part][k] = piece_of_turns(k, part);
      }
    }
  }
};
inline constexpr PieceTable kPieces;
struct Pieces {
  double high, middle, low;
  MSTRAIN_SCALAR_INLINE explicit Pieces(int k)
      : high(kPieces.at[0][k]), middle(kPieces.at[1][k]), low(kPieces.at[2][k]) {}
};
#endif

// x = (4 k + quadrant) π/2 + angle, |angle| <= π/4, exact to 2^-54 for every finite x.
struct Reduced {
  float angle;
  int32_t quadrant;
};
MSTRAIN_SCALAR_INLINE Reduced reduce_angle(float x) {
  constexpr double kRound = 0x1.8p52;
  const int32_t exponent = ((bits_of(x) >> 23) & 255) - 150;  // |x| < 2^(exponent + 24)
  int32_t k = exponent > 0 ? exponent : 0;
  k = k < 104 ? k : 104;
  const double scaled = static_cast<double>(x * from_bits((127 - k) << 23));
  const Pieces pieces(k);
  const double a = scaled * pieces.high;
  const double fours = (a * 0.25 + kRound) - kRound;
  const double b = (a - 4.0 * fours) + (scaled * pieces.middle + scaled * pieces.low);
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

}  // namespace mstrain::scalar
