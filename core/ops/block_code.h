// Numbers in fewer bits by stochastic rounding, and codes of 8 bits for blocks of numbers: the definitions that every
// backend follows. A number is rounded up with a probability equal to its place between its two neighbours, so that the
// mean of the result is the number.
//
// bf16: one word's upper 16 bits decide. Numbers beyond the largest finite one stay there.
//
// Blocks: kBlock consecutive elements (the last block of a tensor may be shorter) share a scale, the largest magnitude
// among them. An element is a code, a small floating-point number of two kinds:
//   signed    1 sign bit, 3 of exponent, 4 of mantissa: off by less than |x| / 16, or scale / 1984 where that is more
//   unsigned  5 bits of exponent, 3 of mantissa:        off by less than |x| / 8,  or scale / 1.6e10 where that is more
// The largest magnitude is exact. Code 0 is 0. A block that holds NaN or an infinity reads back as NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace mstrain {

// The bits of a bf16.
inline uint16_t stochastic_bf16(float x, uint32_t word) {
  constexpr uint32_t kExponent = 0x7f800000U;
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & kExponent) == kExponent) {
    const bool nan = (bits & ~kExponent & 0x7fffffffU) != 0;
    return static_cast<uint16_t>(bits >> 16 | (nan ? 0x40U : 0U));
  }
  const uint32_t up = bits + (word >> 16);
  return static_cast<uint16_t>(((up & kExponent) == kExponent ? bits : up) >> 16);
}

inline constexpr int64_t kCodeBlock = 256;
constexpr int64_t code_blocks(int64_t elements) { return (elements + kCodeBlock - 1) / kCodeBlock; }

// A key of two words, or of three: of a part of a larger tensor, the third is the number of the block that it begins with, so that
// its elements are rounded as those of the whole.
constexpr bool is_key_width(int64_t words) { return words == 2 || words == 3; }
inline int64_t first_element(const uint32_t* key, int64_t words) {
  return words == 3 ? int64_t{key[2]} * kCodeBlock : 0;
}

// Magnitudes in units of the smallest: (2^kMantissa + f) 2^(e - 1) of exponent e and mantissa f, or f where e is 0.
template <bool is_signed>
struct BlockCode {
  static constexpr int kMantissa = is_signed ? 4 : 3;
  static constexpr int kExponents = is_signed ? 8 : 32;
  static constexpr uint32_t kLargest = (kExponents << kMantissa) - 1;  // code of kMost
  static constexpr float kMost =
      static_cast<float>(((2U << kMantissa) - 1)) * static_cast<float>(1U << (kExponents - 2));

  static float step(uint32_t code) {
    const uint32_t exponent = code >> kMantissa;
    return std::bit_cast<float>((127U + (exponent == 0 ? 0 : exponent - 1)) << 23);
  }
  static float magnitude(uint32_t code) {
    const uint32_t fraction = code & ((1U << kMantissa) - 1);
    const uint32_t hidden = code >> kMantissa == 0 ? 0 : 1U << kMantissa;
    return static_cast<float>(static_cast<int32_t>(hidden + fraction)) * step(code);
  }

  // The code of x, whose magnitude is at most `scale`; `word` decides between the neighbours.
  static uint8_t encode(float x, float scale, uint32_t word) {
    if (!(scale > 0)) {
      return 0;
    }
    const float magnitude_of_x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffffU);
    const float ratio = magnitude_of_x / scale * kMost;
    const float y = ratio < kMost ? ratio : kMost;
    // Below 2^(kMantissa + 1) codes are the magnitudes themselves; above, they are y's own upper bits.
    constexpr uint32_t kOffset = (127U + kMantissa - 1) << kMantissa;
    constexpr float kPlain = static_cast<float>(2U << kMantissa);
    const auto plain = static_cast<uint32_t>(static_cast<int32_t>(y < kPlain ? y : kPlain));
    uint32_t code = y < kPlain ? plain : (std::bit_cast<uint32_t>(y) >> (23 - kMantissa)) - kOffset;
    const float rest = (y - magnitude(code)) / step(code);
    // 24 bits as a fraction.
    const float unit = static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24F;
    code += unit < rest ? 1 : 0;
    return static_cast<uint8_t>(is_signed && x < 0 ? code | 0x80U : code);
  }
  static float decode(uint8_t code, float scale) {
    const float x = magnitude(is_signed ? code & 0x7fU : code) / kMost * scale;
    return is_signed && (code & 0x80U) != 0 ? -x : x;
  }
};

// The scale of a block whose largest magnitude is `most`, NaN where an element is: none where nothing normal is in it.
inline float block_scale(float most) {
  if (!(most <= 0x1.fffffep127F)) {
    return std::bit_cast<float>(0x7fc00000U);
  }
  return most < 0x1p-92F ? 0.0F : most;
}

}  // namespace mstrain
