// Branch-free single-precision functions that compilers turn into vector instructions (GCC: -O3 -fno-math-errno
// -fno-trapping-math; no fast-math). Plain C++ for host and device compilers.
//
// Bounds are in units in the last place against the exact result, over all finite arguments, with and without fused
// multiply-add; infinities, NaN, overflow and gradual underflow follow IEEE (where the hardware does not flush), the sign
// of a zero result may be lost.
// Polynomials are minimax fits (Lawson's algorithm, then rounded to single precision).
#pragma once

#include "core/ops/scalar_angles.h"
#include "core/ops/scalar_bits.h"

namespace mstrain::scalar {

// 1 ulp. Cards have an instruction for powers of two.
template <>
MSTRAIN_SCALAR_INLINE float exp(float x) {
#ifdef __CUDA_ARCH__
  return ::expf(x);
#else
  x = x > 89.0F ? 89.0F : x;
  x = x < -104.0F ? -104.0F : x;
  const detail::ExpParts e = detail::exp_parts(x);
  return (e.fraction * e.high + e.high) * e.low;
#endif
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
  const auto [f, n] = detail::log_terms(x);
  return detail::with_ends_of_log(
      x, n * detail::kLn2High + (f + (detail::log_tail(f) + n * detail::kLn2Low)));
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
  const float large =
      __builtin_copysignf(1.0F - detail::ratio(2.0F, detail::exp_bounded(2.0F * a) + 1.0F), x);
  return a < 0.6F ? small : large;
}

// 2.5 ulp.
template <>
MSTRAIN_SCALAR_INLINE float sigmoid(float x) {
  const float e = exp<float>(-__builtin_fabsf(x));
  return detail::ratio(x < 0.0F ? e : 1.0F, 1.0F + e);
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

// 1 ulp; 2 on a card.
template <>
MSTRAIN_SCALAR_INLINE float exp2(float x) {
#ifdef __CUDA_ARCH__
  return ::exp2f(x);
#else
  x = x > 129.0F ? 129.0F : x;
  x = x < -150.0F ? -150.0F : x;
  const float shifted = x + detail::kRound;
  const float r = (x - (shifted - detail::kRound)) * 0x1.62e43p-1F;
  const detail::ExpParts e =
      detail::exp_parts_of(r, detail::bits_of(shifted) - detail::bits_of(detail::kRound));
  return (e.fraction * e.high + e.high) * e.low;
#endif
}

// 2 ulp; exact for powers of two.
template <>
MSTRAIN_SCALAR_INLINE float log2(float x) {
  constexpr float kRest = 0.44269504F;  // log2(e) - 1
  const auto [f, n] = detail::log_terms(x);
  const float tail = detail::log_tail(f);
  return detail::with_ends_of_log(x, n + (f + (tail + kRest * (f + tail))));
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

// Of x Φ(x), x σ(2u) and their derivatives is found what lies below zero: Φ(-a) and σ(-2u) for a = |x|, which lose nothing
// there, and with them what Φ(a) = 1 - Φ(-a) lacks of 1.
namespace detail {
// Of 2u in the form with tanh u, whose ½ (1 + tanh u) is σ(2u).
inline constexpr float kGeluLinear = 1.5957691F;   // 2 √(2/π)
inline constexpr float kGeluCubic = 0.071354814F;  // 2 √(2/π) 0.044715
// |x|, and 14 beyond: all is zero there.
MSTRAIN_SCALAR_INLINE float gelu_distance(float x) {
  const float a = __builtin_fabsf(x);
  return a > 14.0F ? 14.0F : a;
}
MSTRAIN_SCALAR_INLINE float relu(float x) { return x < 0.0F ? 0.0F : x; }
// Φ(-a) = power m(a) with the power e^(-a²/2), under which m is within 1e-8 of that.
struct GeluTail {
  float power;
  float m;
};
MSTRAIN_SCALAR_INLINE GeluTail gelu_tail(float a) {
  float m = 0x1.0188e2p-24F;
  m = m * a + -0x1.b77264p-20F;
  m = m * a + 0x1.536a94p-16F;
  m = m * a + -0x1.3e34bcp-13F;
  m = m * a + 0x1.9c730ep-11F;
  m = m * a + -0x1.92a5b2p-9F;
  m = m * a + 0x1.3d6380p-7F;
  m = m * a + -0x1.ab8fc6p-6F;
  m = m * a + 0x1.fe3378p-5F;
  m = m * a + -0x1.103a88p-3F;
  m = m * a + 0x1.fffc2cp-3F;
  m = m * a + -0x1.98843ep-2F;
  m = m * a + 0.5F;
  return {exp_flushed(-0.5F * a * a), m};
}
}  // namespace detail

// 2.5 ulp of x.
template <>
MSTRAIN_SCALAR_INLINE float gelu(float x) {
  const float a = detail::gelu_distance(x);
  const detail::GeluTail tail = detail::gelu_tail(a);
  return detail::relu(x) - a * (tail.power * tail.m);
}

template <>
MSTRAIN_SCALAR_INLINE float gelu_grad(float x, float g) {
  constexpr float kInvSqrt2Pi = 0.3989423F;
  const float a = detail::gelu_distance(x);
  const detail::GeluTail tail = detail::gelu_tail(a);
  const float below = tail.power * (tail.m - kInvSqrt2Pi * a);
  return g * (x < 0.0F ? below : 1.0F - below);
}

// 8 ulp while |x| < 2, 40 while |x| < 5: an error of the exponent's argument grows with it.
template <>
MSTRAIN_SCALAR_INLINE float gelu_tanh(float x) {
  const float a = detail::gelu_distance(x);
  const float e = detail::exp_flushed(-a * (detail::kGeluLinear + detail::kGeluCubic * (a * a)));
  return detail::relu(x) - a * detail::ratio(e, 1.0F + e);
}

template <>
MSTRAIN_SCALAR_INLINE float gelu_tanh_grad(float x, float g) {
  const float a = detail::gelu_distance(x);
  const float a2 = a * a;
  const float e = detail::exp_flushed(-a * (detail::kGeluLinear + detail::kGeluCubic * a2));
  const float above = detail::ratio(1.0F, 1.0F + e);  // σ(2u); its derivative is e above²
  const float slope = detail::kGeluLinear + 3.0F * detail::kGeluCubic * a2;
  const float below = (e * above) * (1.0F - (a * slope) * above);
  return g * (x < 0.0F ? below : 1.0F - below);
}

}  // namespace mstrain::scalar
