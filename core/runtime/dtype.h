// Element types and the two 16-bit floating-point formats that C++20 lacks.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mstrain {

enum class Dtype : uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kI8, kU32, kU16, kU8, kBool };
inline constexpr int kNumDtypes = 11;
inline constexpr Dtype kAllDtypes[kNumDtypes] = {
    Dtype::kF64, Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kI64, Dtype::kI32,
    Dtype::kI8,  Dtype::kU32, Dtype::kU16,  Dtype::kU8,  Dtype::kBool};

constexpr int size_of(Dtype dtype) {
  constexpr int kSizes[kNumDtypes] = {8, 4, 2, 2, 8, 4, 1, 4, 2, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}
constexpr bool is_floating(Dtype dtype) { return dtype <= Dtype::kF16; }
constexpr bool is_integer(Dtype dtype) { return dtype >= Dtype::kI64 && dtype <= Dtype::kU8; }
constexpr bool is_signed(Dtype dtype) { return dtype <= Dtype::kI8; }

// "f32", "bf16", "i64", "bool", …
constexpr std::string_view name_of(Dtype dtype) {
  constexpr std::string_view kNames[kNumDtypes] = {"f64", "f32", "bf16", "f16", "i64", "i32",
                                                   "i8",  "u32", "u16",  "u8",  "bool"};
  return kNames[static_cast<int>(dtype)];
}
constexpr std::optional<Dtype> parse_dtype(std::string_view name) {
  for (Dtype dtype : kAllDtypes) {
    if (name_of(dtype) == name) {
      return dtype;
    }
  }
  return std::nullopt;
}

// bfloat16: the upper half of an IEEE binary32; conversion rounds to nearest even and keeps NaN.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto x = std::bit_cast<uint32_t>(value);
    const bool nan = (x & 0x7fffffffU) > 0x7f800000U;
    bits = nan ? static_cast<uint16_t>((x >> 16) | 0x40U)
               : static_cast<uint16_t>((x + 0x7fffU + ((x >> 16) & 1U)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// IEEE binary16; conversion rounds to nearest even, overflows to infinity and keeps NaN and subnormals.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) {
    const auto x = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (x >> 16) & 0x8000U;
    const uint32_t magnitude = x & 0x7fffffffU;
    uint32_t half = 0;
    if (magnitude > 0x7f800000U) {
      half = 0x7e00U;
    } else if (magnitude >= 0x477ff000U) {  // 65520 and above round to infinity
      half = 0x7c00U;
    } else if (magnitude <
               0x38800000U) {  // below 2^-14: adding 0.5 puts the subnormal's bits in place
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      half = std::bit_cast<uint32_t>(shifted) - 0x3f000000U;
    } else {
      const uint32_t odd = (magnitude >> 13) & 1U;
      half = (magnitude + 0xc8000fffU + odd) >> 13;
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t magnitude = bits & 0x7fffU;
    float result = 0;
    if (magnitude >= 0x7c00U) {
      result = std::bit_cast<float>((magnitude << 13) + 0x70000000U);
    } else if (magnitude < 0x400U) {
      result = static_cast<float>(magnitude) * 0x1p-24F;
    } else {
      result = std::bit_cast<float>((magnitude << 13) + 0x38000000U);
    }
    return std::bit_cast<float>(std::bit_cast<uint32_t>(result) | sign);
  }
};

// clang-format off
template <class T>
struct DtypeOf;
template <> struct DtypeOf<double> { static constexpr Dtype value = Dtype::kF64; };
template <> struct DtypeOf<float> { static constexpr Dtype value = Dtype::kF32; };
template <> struct DtypeOf<BFloat16> { static constexpr Dtype value = Dtype::kBF16; };
template <> struct DtypeOf<Float16> { static constexpr Dtype value = Dtype::kF16; };
template <> struct DtypeOf<int64_t> { static constexpr Dtype value = Dtype::kI64; };
template <> struct DtypeOf<int32_t> { static constexpr Dtype value = Dtype::kI32; };
template <> struct DtypeOf<int8_t> { static constexpr Dtype value = Dtype::kI8; };
template <> struct DtypeOf<uint32_t> { static constexpr Dtype value = Dtype::kU32; };
template <> struct DtypeOf<uint16_t> { static constexpr Dtype value = Dtype::kU16; };
template <> struct DtypeOf<uint8_t> { static constexpr Dtype value = Dtype::kU8; };
template <> struct DtypeOf<bool> { static constexpr Dtype value = Dtype::kBool; };
// clang-format on
template <class T>
inline constexpr Dtype dtype_of = DtypeOf<T>::value;

// Calls f(T{}) with the C++ type of `dtype`.
template <class F>
decltype(auto) visit_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kF64: return f(double{});
    case Dtype::kF32: return f(float{});
    case Dtype::kBF16: return f(BFloat16{});
    case Dtype::kF16: return f(Float16{});
    case Dtype::kI64: return f(int64_t{});
    case Dtype::kI32: return f(int32_t{});
    case Dtype::kI8: return f(int8_t{});
    case Dtype::kU32: return f(uint32_t{});
    case Dtype::kU16: return f(uint16_t{});
    case Dtype::kU8: return f(uint8_t{});
    case Dtype::kBool: return f(bool{});
  }
  __builtin_unreachable();
}

}  // namespace mstrain
