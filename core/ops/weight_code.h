// Weights in fewer bits: the definitions that every backend follows. A weight is a matrix, what comes out by what is summed
// over, and each of its rows becomes bytes of its own, so that rows are picked as those of any tensor. Numbers of a block
// share a scale; the last block of a row may be shorter.
//
//   bf16   each number rounded to bf16
//   int8   number = code / 128 * scale; a code of 8 bits each, a scale of 16 bits for a block of 32
//   nf4    number = level * scale; a code of 4 bits each, which names one of 16 levels (the quantiles of a normal, QLoRA,
//          Dettmers et al. 2023), a scale for a block of 64: 8 bits, in units of one of 16 bits that 256 blocks share
//
// The bytes of a row of `width` numbers, in blocks of which the last one is filled up; zeros up to a multiple of 16 follow:
//   bf16   u16 of each number, blocks of 32
//   int8   i8 codes in [-127, 127], then u16 scales of the blocks
//   nf4    for each block 32 bytes, of which byte i holds number i in its lower half and number 32 + i in the upper one; then
//          u8 scales of the blocks; then u16 scales of the groups
// so that a number takes 16, 8.5 or about 4.16 bits.
//
// Scales have no sign, no zero and no infinity: 16 bits are 5 of exponent e and 11 of mantissa m, (1 + m / 2^11) 2^(e - 19),
// and 8 bits are 3 and 5, (1 + m / 2^5) 2^(e - 8). So any bytes are numbers, and a block whose largest magnitude is below
// 2^-19, or 1/252 of its group's, is stored with that for a scale. A scale of int8 is off by less than 2^-12 of itself, which is
// nothing beside half a step of the codes, 1/254 of the largest magnitude; one of nf4 by 2^-6, beside up to 1/7.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/runtime/dtype.h"

namespace mstrain {

enum class WeightCode : uint8_t { kBf16, kInt8, kNf4 };
inline constexpr int kNumWeightCodes = 3;
inline constexpr WeightCode kAllWeightCodes[kNumWeightCodes] = {
    WeightCode::kBf16, WeightCode::kInt8, WeightCode::kNf4};

// "bf16", "int8", "nf4"
std::string_view name_of(WeightCode code);
std::optional<WeightCode> parse_weight_code(std::string_view name);

inline constexpr int64_t kScaleGroup = 256;  // blocks
inline constexpr int64_t kNf4Half = 32;      // bytes of a block

constexpr int64_t code_block(WeightCode code) { return code == WeightCode::kNf4 ? 64 : 32; }
// Bytes of a block's codes.
constexpr int64_t code_bytes(WeightCode code) { return code == WeightCode::kBf16 ? 64 : 32; }
constexpr int64_t code_blocks_of(WeightCode code, int64_t width) {
  return (width + code_block(code) - 1) / code_block(code);
}
constexpr int64_t code_row_bytes(WeightCode code, int64_t width) {
  const int64_t blocks = code_blocks_of(code, width);
  const int64_t scales = code == WeightCode::kBf16 ? 0
                         : code == WeightCode::kInt8
                             ? 2 * blocks
                             : blocks + (blocks + kScaleGroup - 1) / kScaleGroup * 2;
  return (blocks * code_bytes(code) + scales + 15) / 16 * 16;
}

inline constexpr float kNf4Levels[16] = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// Bits of a scale as those of a float: shifted to its place, with this added.
inline constexpr int kWideScaleShift = 12;
inline constexpr uint32_t kWideScaleBase = (127U - 19U) << 23;
inline constexpr int kNarrowScaleShift = 18;
inline constexpr uint32_t kNarrowScaleBase = (127U - 8U) << 23;
inline constexpr uint32_t kOneOf128 = 7U << 23;  // less: divided by 128

inline float wide_scale(uint16_t bits) {
  return std::bit_cast<float>((uint32_t{bits} << kWideScaleShift) + kWideScaleBase);
}
inline float narrow_scale(uint8_t bits) {
  return std::bit_cast<float>((uint32_t{bits} << kNarrowScaleShift) + kNarrowScaleBase);
}

// Number i of a row.
float decoded_number(WeightCode code, const uint8_t* row, int64_t width, int64_t i);

// The row of `width` numbers. False where a number is not finite, or has a magnitude above kLargestCoded; bf16 takes all.
inline constexpr float kLargestCoded = 8000;
bool encode_row(WeightCode code, const float* numbers, int64_t width, uint8_t* row);

}  // namespace mstrain
