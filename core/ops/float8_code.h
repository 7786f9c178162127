// Floating-point numbers of 8 bits and the units that tensors of them are counted in: the definitions that every back end follows
// (Micikevicius et al. 2022, "FP8 formats for deep learning"; the codes of OCP's OFP8).
//
//   E4M3   4 bits of exponent, 3 of mantissa: up to 448, down to 2^-9; no infinity, NaN where all other bits are set
//   E5M2   5 and 2, the upper half of an IEEE binary16: up to 57344, down to 2^-16
//
// A tensor is its codes times a unit, a power of two, so that neither going there nor coming back rounds a second time. What lies
// beyond the largest number becomes that one; infinity and NaN stay what they are, or become NaN where there is no infinity.
#pragma once

#include <bit>
#include <cstdint>

namespace mstrain {

struct E4M3 {
  static constexpr uint32_t kMantissa = 3, kBias = 7;
  static constexpr uint32_t kMost = 0x7eU,
                            kInfinity = 0x7fU;  // codes of 448, and of what is infinite
};
struct E5M2 {
  static constexpr uint32_t kMantissa = 2, kBias = 15;
  static constexpr uint32_t kMost = 0x7bU, kInfinity = 0x7cU;
};

template <class Format>
struct Float8Code {
  static constexpr uint32_t kNan = 0x7fU;
  static constexpr uint32_t kShift = 23 - Format::kMantissa;  // to the bits of an f32
  static constexpr uint32_t kRebias = (127 - Format::kBias) << 23;
  static constexpr uint32_t kMostBits = (Format::kMost << kShift) + kRebias;
  static constexpr uint32_t kLeastNormal = (1U << 23) + kRebias;
  // Added to what is below that, it leaves the number of least steps in the lowest bits.
  static constexpr uint32_t kSteps = (127 + 24 - Format::kBias - Format::kMantissa) << 23;

  // The code of x / unit; to nearest, ties to even. `per_unit`: 1 / unit.
  static uint8_t encode(float x, float per_unit) {
    constexpr uint32_t kInfinite = 0x7f800000U;
    const auto own = std::bit_cast<uint32_t>(x);
    const uint32_t scaled = std::bit_cast<uint32_t>(x * per_unit) & 0x7fffffffU;
    const uint32_t y = scaled < kMostBits ? scaled : kMostBits;
    const uint32_t normal =
        (y - kRebias + (1U << (kShift - 1)) - 1 + ((y >> kShift) & 1U)) >> kShift;
    const uint32_t steps =
        std::bit_cast<uint32_t>(std::bit_cast<float>(y) + std::bit_cast<float>(kSteps)) - kSteps;
    uint32_t code = y < kLeastNormal ? steps : normal;
    code = (own & 0x7fffffffU) == kInfinite ? Format::kInfinity : code;
    code = (own & 0x7fffffffU) > kInfinite ? kNan : code;
    return static_cast<uint8_t>(code | (own >> 24 & 0x80U));
  }

  // Exact in bf16 as well.
  static float decode(uint8_t code) {
    const uint32_t magnitude = code & 0x7fU;
    const float steps = std::bit_cast<float>(magnitude + kSteps) - std::bit_cast<float>(kSteps);
    uint32_t bits = magnitude >> Format::kMantissa == 0 ? std::bit_cast<uint32_t>(steps)
                                                        : (magnitude << kShift) + kRebias;
    bits = magnitude == Format::kInfinity ? 0x7f800000U : bits;
    bits =
        magnitude > Format::kMost && (magnitude != Format::kInfinity || Format::kInfinity == kNan)
            ? 0x7fc00000U
            : bits;
    return std::bit_cast<float>(bits | (code & 0x80U) << 24);
  }

  // 2^`margin` times the least power of two in which the magnitude `expected`, or, where that is 0, `most`, still has a code; 1 where
  // both are 0 or no finite numbers, as which subnormal ones count. Within 2^-100 and 2^100, so that products of two are numbers.
  static float unit(float expected, float most, int margin) {
    constexpr uint32_t kNormal = 0x00800000U, kNormals = 0x7f000000U;
    uint32_t bits = std::bit_cast<uint32_t>(expected);
    bits = bits - kNormal < kNormals ? bits : std::bit_cast<uint32_t>(most);
    if (bits - kNormal >= kNormals) {
      return 1;
    }
    // Both formats end at 1.75 times a power of two.
    constexpr int kTop = static_cast<int>(kMostBits >> 23);
    const int exponent = static_cast<int>((bits + 0x1fffffU) >> 23) - kTop + margin;
    const int kept = exponent < -100 ? -100 : exponent > 100 ? 100 : exponent;
    return std::bit_cast<float>(static_cast<uint32_t>(127 + kept) << 23);
  }
};

// 1 / unit.
inline float per_unit(float unit) {
  return std::bit_cast<float>((254U << 23) - std::bit_cast<uint32_t>(unit));
}

}  // namespace mstrain
