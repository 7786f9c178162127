// Conversions between element types: one definition for the loops of processors and for CUDA. Branch-free, as
// core/ops/scalar_float.h is.
#pragma once

#include <cstdint>
#include <limits>

#include "core/ops/scalar_bits.h"

namespace mstrain::scalar {

// bfloat16 and IEEE binary16 as their bits; to nearest even, NaN stays NaN (which one, on a card, is the card's).
MSTRAIN_SCALAR_INLINE uint16_t to_bf16(float value) {
#ifdef __CUDA_ARCH__
  uint32_t pair;  // the instruction for two is faster than that for one
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0F), "f"(value));
  return static_cast<uint16_t>(pair);
#else
  const uint32_t x = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (x + 0x7fffU + ((x >> 16) & 1U)) >> 16;
  const uint32_t nan = (x >> 16) | 0x40U;
  return static_cast<uint16_t>((x & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
#endif
}
MSTRAIN_SCALAR_INLINE float from_bf16(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}
// As Float16 in core/runtime/dtype.h, without branches.
MSTRAIN_SCALAR_INLINE uint16_t to_f16(float value) {
#ifdef __CUDA_ARCH__
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0F), "f"(value));
  return static_cast<uint16_t>(pair);
#else
  const uint32_t x = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = (x >> 16) & 0x8000U;
  const uint32_t magnitude = x & 0x7fffffffU;
  const float shifted = __builtin_bit_cast(float, magnitude) + 0.5F;
  const uint32_t subnormal = __builtin_bit_cast(uint32_t, shifted) - 0x3f000000U;
  const uint32_t normal = (magnitude + 0xc8000fffU + ((magnitude >> 13) & 1U)) >> 13;
  uint32_t half = magnitude < 0x38800000U ? subnormal : normal;
  half = magnitude >= 0x477ff000U ? 0x7c00U : half;
  half = magnitude > 0x7f800000U ? 0x7e00U : half;
  return static_cast<uint16_t>(sign | half);
#endif
}
MSTRAIN_SCALAR_INLINE float from_f16(uint16_t bits) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t magnitude = bits & 0x7fffU;
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F;
  const uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00U ? 0x70000000U : 0x38000000U);
  const uint32_t result = magnitude < 0x400U ? __builtin_bit_cast(uint32_t, subnormal) : normal;
  return __builtin_bit_cast(float, result | sign);
#endif
}

// To an integer: truncates towards zero and saturates; NaN gives zero.
template <class From, class To>
MSTRAIN_SCALAR_INLINE To saturate(From x) {
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
  // The largest value of To + 1 is a power of two, so exact in every floating type.
  constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From(2);
  const bool inside = x > kLow && x < kHigh;
  const To truncated = static_cast<To>(static_cast<int64_t>(inside ? x : From(0)));
  const To end = x >= kHigh ? std::numeric_limits<To>::max()
                            : (x <= kLow ? std::numeric_limits<To>::min() : To(0));
  return inside ? truncated : end;
}

}  // namespace mstrain::scalar
