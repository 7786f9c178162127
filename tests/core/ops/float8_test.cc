#include "core/ops/float8.h"

#include <cmath>

#include "core/ops/matmul.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

// What a code stands for, by the definition of its format.
double number_of(Float8 format, int code) {
  const int mantissa_bits = format == Float8::kE4M3 ? 3 : 2;
  const int bias = format == Float8::kE4M3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const int fraction = code & ((1 << mantissa_bits) - 1);
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  if (format == Float8::kE5M2 && exponent == 31) {
    return fraction == 0 ? sign * kInfinity : kNan;
  }
  if (format == Float8::kE4M3 && (code & 0x7f) == 0x7f) {
    return kNan;
  }
  return exponent == 0
             ? sign * std::ldexp(fraction, 1 - bias - mantissa_bits)
             : sign * std::ldexp((1 << mantissa_bits) + fraction, exponent - bias - mantissa_bits);
}

double decoded(Float8 format, uint8_t code) {
  return visit_float8(format, [&](auto it) { return static_cast<double>(it.decode(code)); });
}
uint8_t encoded(Float8 format, float x, float unit = 1) {
  return visit_float8(format, [&](auto it) { return it.encode(x, per_unit(unit)); });
}

class Float8Numbers : public testing::TestWithParam<Float8> {
 protected:
  KeepsFloatingMode mode_;
};

TEST_P(Float8Numbers, AreThoseOfTheirCodes) {
  for (int code = 0; code < 256; ++code) {
    const double expected = number_of(GetParam(), code);
    const double found = decoded(GetParam(), static_cast<uint8_t>(code));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << code;
    } else {
      EXPECT_EQ(found, expected) << code;
      EXPECT_EQ(std::signbit(found), std::signbit(expected)) << code;
      EXPECT_EQ(encoded(GetParam(), static_cast<float>(expected)), code);
    }
  }
}

// Of neighbours: the nearer one, between two the even one, beyond the last that.
TEST_P(Float8Numbers, AreTheNearest) {
  const int most = GetParam() == Float8::kE4M3 ? 0x7e : 0x7b;
  const auto expect_code = [&](double x, int code) {
    EXPECT_EQ(encoded(GetParam(), static_cast<float>(x)), code) << x;
    EXPECT_EQ(encoded(GetParam(), static_cast<float>(-x)), code | 0x80) << -x;
    EXPECT_EQ(encoded(GetParam(), static_cast<float>(std::ldexp(x, -20)), 0x1p-20F), code) << x;
  };
  for (int code = 0; code < most; ++code) {
    const auto low = static_cast<float>(number_of(GetParam(), code));
    const auto high = static_cast<float>(number_of(GetParam(), code + 1));
    const float middle = (low + high) / 2;
    expect_code(middle, code % 2 == 0 ? code : code + 1);
    expect_code(std::nextafter(middle, low), code);
    expect_code(std::nextafter(middle, high), code + 1);
  }
  const double last = number_of(GetParam(), most);
  for (const double x : {last, 1.07 * last, 1e6 * last}) {
    expect_code(x, most);
  }
  EXPECT_EQ(encoded(GetParam(), 3e38F, 0x1p-100F), most);
}

TEST_P(Float8Numbers, KeepWhatIsNoFiniteNumber) {
  const auto infinity = static_cast<float>(kInfinity);
  for (const float x : {infinity, -infinity}) {
    const double found = decoded(GetParam(), encoded(GetParam(), x, 0x1p20F));
    EXPECT_TRUE(GetParam() == Float8::kE5M2 ? found == static_cast<double>(x) : std::isnan(found));
  }
  EXPECT_TRUE(std::isnan(decoded(GetParam(), encoded(GetParam(), static_cast<float>(kNan)))));
}

TEST_P(Float8Numbers, HaveTheLeastUnitThatTheLargestFitsIn) {
  const double last = GetParam() == Float8::kE4M3 ? 448 : 57344;
  const auto unit = [&](double most, int margin = 0) {
    return visit_float8(GetParam(), [&](auto code) {
      return static_cast<double>(code.unit(0, static_cast<float>(most), margin));
    });
  };
  for (int exponent = -90; exponent < 90; exponent += 7) {
    const auto most = static_cast<float>(std::ldexp(last, exponent));
    EXPECT_EQ(unit(static_cast<double>(most)), std::ldexp(1, exponent));
    EXPECT_EQ(unit(static_cast<double>(std::nextafter(most, 0.0F))), std::ldexp(1, exponent));
    EXPECT_EQ(unit(static_cast<double>(std::nextafter(most, 3e38F))), std::ldexp(1, exponent + 1));
    EXPECT_EQ(unit(static_cast<double>(most), 3), std::ldexp(1, exponent + 3));
  }
  for (const double none : {0.0, kInfinity, kNan}) {
    EXPECT_EQ(unit(none), 1) << none;
  }
  EXPECT_EQ(unit(1.2e-38), 0x1p-100);
  EXPECT_EQ(unit(3e38), 0x1p100);
  EXPECT_EQ(visit_float8(GetParam(), [](auto code) { return code.unit(448, 1e-9F, 0); }),
            GetParam() == Float8::kE4M3 ? 1 : 0x1p-7F);
}

INSTANTIATE_TEST_SUITE_P(Formats, Float8Numbers, testing::Values(Float8::kE4M3, Float8::kE5M2),
                         [](const auto& info) {
                           return std::string(info.param == Float8::kE4M3 ? "E4M3" : "E5M2");
                         });

class Float8Products : public OnReference {};

Tensor number(double x) { return vector({x}, Dtype::kF32); }
Tensor one(double x) { return reshape(number(x), {}); }

TEST_F(Float8Products, AreThoseOfTheRoundedNumbers) {
  const Tensor x = cast(3 * random_tensor({5, 2, 16}, 1), Dtype::kF32);
  const Tensor y = cast(1e-6 * random_tensor({32, 16}, 2), Dtype::kF32);
  const Float8Tensor x8 = encode_float8(x, one(2), one(3), Float8::kE4M3, 0);
  const Float8Tensor y8 = encode_float8(y, one(0), one(1e-6), Float8::kE5M2, 0);
  EXPECT_EQ(item(x8.unit), 0x1p-7);   // 2 / 448, rounded up
  EXPECT_EQ(item(y8.unit), 0x1p-35);  // 1e-6 / 57344
  const auto numbers = [](const Float8Tensor& t) {
    return cast(decode_float8(t.codes, t.format), Dtype::kF64) * item(t.unit);
  };
  EXPECT_LE(greatest_difference(numbers(x8), cast(maximum(minimum(x, 3.5), -3.5), Dtype::kF64)),
            0.125);
  EXPECT_LE(greatest_difference(numbers(y8), cast(y, Dtype::kF64)), 1e-6 / 8);
  const Tensor expected = matmul(numbers(x8), numbers(y8), {.transpose_b = true});
  const Tensor found = float8_product(x8, y8, {"abk", "nk", "abn"});
  EXPECT_EQ(found.dtype(), Dtype::kBF16);
  EXPECT_LE(greatest_difference(cast(found, Dtype::kF64), expected),
            item(max(abs(expected))) / 256);
}

TEST_F(Float8Products, SayWhatIsWrong) {
  const Tensor x = zeros({Dtype::kF32, {2, 16}});
  const Float8Tensor x8 = encode_float8(x, one(1), one(1), Float8::kE4M3, 0);
  EXPECT_THAT(error_of([&] { encode_float8(x, number(1), one(1), Float8::kE4M3, 0); }),
              testing::HasSubstr("magnitudes are f32[1] and f32[], not f32 of leading dims of"));
  EXPECT_THAT(error_of([&] { decode_float8(x, Float8::kE4M3); }),
              testing::HasSubstr("codes are f32[2, 16], not u8"));
  EXPECT_THAT(error_of([&] {
                float8_product(x8, {x8.codes, number(1)}, {"ab", "cb", "ac"});
              }),
              testing::HasSubstr("a unit is f32[1], not f32[]"));
}

}  // namespace
}  // namespace mstrain
