#include "core/runtime/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mstrain {
namespace {

TEST(Dtype, NamesAreReadBack) {
  for (const Dtype dtype : kAllDtypes) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype) << name_of(dtype);
  }
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(Dtype, VisitsTheTypeOfItsSize) {
  for (const Dtype dtype : kAllDtypes) {
    visit_dtype(dtype, [&](auto zero) {
      EXPECT_EQ(sizeof(zero), static_cast<size_t>(size_of(dtype))) << name_of(dtype);
      EXPECT_EQ(dtype_of<decltype(zero)>, dtype) << name_of(dtype);
    });
  }
}

// Every pattern of 16 bits is a value of its own, so a value that is read and written again keeps its bits.
template <class T>
void expect_bits_are_kept() {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    T value;
    value.bits = static_cast<uint16_t>(bits);
    const T again(static_cast<float>(value));
    if (std::isnan(static_cast<float>(value))) {
      ASSERT_TRUE(std::isnan(static_cast<float>(again))) << bits;
    } else {
      ASSERT_EQ(again.bits, value.bits);
    }
  }
}
TEST(Dtype, SixteenBitFloatsKeepTheirBits) {
  expect_bits_are_kept<BFloat16>();
  expect_bits_are_kept<Float16>();
}

// Half way between neighbours goes to the even one, a little more or less to the nearer.
template <class T>
void expect_rounding_to_nearest_even() {
  for (uint32_t bits = 0; bits < 0x7fff; ++bits) {
    T low, high;
    low.bits = static_cast<uint16_t>(bits);
    high.bits = static_cast<uint16_t>(bits + 1);
    const double a = static_cast<float>(low), b = static_cast<float>(high);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      continue;
    }
    const auto middle = static_cast<float>((a + b) / 2);
    ASSERT_EQ(T(middle).bits, bits % 2 == 0 ? low.bits : high.bits) << a;
    ASSERT_EQ(T(std::nextafter(middle, 0.0F)).bits, low.bits) << a;
    ASSERT_EQ(T(std::nextafter(middle, INFINITY)).bits, high.bits) << a;
    ASSERT_EQ(T(-middle).bits, T(middle).bits | 0x8000) << a;
  }
}
TEST(Dtype, SixteenBitFloatsRoundToNearestEven) {
  expect_rounding_to_nearest_even<BFloat16>();
  expect_rounding_to_nearest_even<Float16>();
}

TEST(Dtype, WhatIsTooLargeIsInfinite) {
  EXPECT_EQ(static_cast<float>(Float16(65519.996F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(Float16(65520.0F)), INFINITY);
  EXPECT_EQ(static_cast<float>(Float16(-1e10F)), -INFINITY);
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), INFINITY);
}

}  // namespace
}  // namespace mstrain
