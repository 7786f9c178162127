// The single-precision functions against double precision, over all exponents and both signs.
// MSTRAIN_FULL_SWEEP=1 in the environment tries all 2^32 arguments (minutes) instead of one in 2053.
#include "core/ops/scalar_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>

namespace mstrain {
namespace {

// Distance of `got` from `exact` in units in the last place of single precision; 0 where both overflow alike or are NaN.
double ulps(double exact, float got) {
  constexpr double kWrong = 1e9;
  if (std::isnan(exact) || std::isnan(got)) {
    return std::isnan(exact) && std::isnan(got) ? 0 : kWrong;
  }
  const auto rounded = static_cast<float>(exact);
  if (std::isinf(got) || std::isinf(exact)) {
    // The largest finite number and infinity are neighbours.
    const bool near = std::abs(exact) >= 3.4028230e38 && std::signbit(exact) == std::signbit(got);
    return rounded == got || (near && !std::isinf(exact)) ? 0 : kWrong;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(static_cast<double>(got) - exact) /
         std::ldexp(1.0, std::max(exponent, -125) - 24);
}

struct Worst {
  double ulps = 0;
  float at = 0;
};

template <class Function, class Exact>
Worst sweep(Function function, Exact exact, float limit = std::numeric_limits<float>::infinity()) {
  const uint64_t step = std::getenv("MSTRAIN_FULL_SWEEP") != nullptr ? 1 : 2053;
  Worst worst;
  const auto visit = [&](float x) {
    if (std::abs(x) > limit) {
      return;
    }
    const double distance = ulps(exact(static_cast<double>(x)), function(x));
    if (distance > worst.ulps) {
      worst = {distance, x};
    }
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    visit(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  // The neighbourhood of 1, where logarithms cancel, and of powers of two.
  for (int exponent = -126; exponent < 128; ++exponent) {
    for (int offset = -40; offset <= 40; ++offset) {
      const float power = std::ldexp(1.0F, exponent);
      const float x = std::bit_cast<float>(std::bit_cast<int32_t>(power) + offset);
      visit(x);
      visit(-x);
    }
  }
  return worst;
}

#define EXPECT_WITHIN_ULPS(bound, function, exact, ...)                                      \
  do {                                                                                       \
    const Worst worst = sweep(function, exact __VA_OPT__(, ) __VA_ARGS__);                   \
    EXPECT_LE(worst.ulps, bound) << "at " << worst.at << " = " << std::hexfloat << worst.at; \
  } while (false)

TEST(ScalarFloat, ExponentialsStayWithinTheirBounds) {
  EXPECT_WITHIN_ULPS(1.0, scalar::exp<float>, [](double x) { return std::exp(x); });
  EXPECT_WITHIN_ULPS(1.5, scalar::expm1<float>, [](double x) { return std::expm1(x); });
  EXPECT_WITHIN_ULPS(2.5, scalar::sigmoid<float>, [](double x) { return 1 / (1 + std::exp(-x)); });
  EXPECT_WITHIN_ULPS(2.0, scalar::softplus<float>,
                     [](double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))); });
}

TEST(ScalarFloat, LogarithmsStayWithinTheirBounds) {
  EXPECT_WITHIN_ULPS(1.0, scalar::log<float>, [](double x) { return std::log(x); });
  EXPECT_WITHIN_ULPS(2.0, scalar::log1p<float>, [](double x) { return std::log1p(x); });
}

TEST(ScalarFloat, TrigonometryStaysWithinItsBoundsForEveryFiniteAngle) {
  EXPECT_WITHIN_ULPS(2.0, scalar::sin<float>, [](double x) { return std::sin(x); });
  EXPECT_WITHIN_ULPS(2.0, scalar::cos<float>, [](double x) { return std::cos(x); });
}

TEST(ScalarFloat, TanhAndErfStayWithinTheirBounds) {
  EXPECT_WITHIN_ULPS(1.5, scalar::tanh<float>, [](double x) { return std::tanh(x); });
  EXPECT_WITHIN_ULPS(1.5, scalar::erf<float>, [](double x) { return std::erf(x); });
}

TEST(ScalarFloat, GeluTanhKeepsItsDigitsWhereTanhIsNearMinusOne) {
  const auto exact = [](double x) {
    const double u = scalar::kSqrt2OverPi * (x + scalar::kGeluCubic * x * x * x);
    return x / (1 + std::exp(-2 * u));
  };
  // The error of the exponent's argument grows with it.
  EXPECT_WITHIN_ULPS(8.0, scalar::gelu_tanh<float>, exact, 2.0F);
  EXPECT_WITHIN_ULPS(40.0, scalar::gelu_tanh<float>, exact, 5.0F);
}

TEST(ScalarFloat, GeluTanhGradIsThatOfTheTemplate) {
  for (float x = -6; x < 6; x += 0.0117F) {
    const double exact = scalar::gelu_tanh_grad<double>(x, 0.75);
    EXPECT_NEAR(scalar::gelu_tanh_grad<float>(x, 0.75F), exact, 1e-6) << x;
  }
}

TEST(ScalarFloat, SpecialValuesFollowIeee) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(scalar::exp<float>(-kInfinity), 0);
  EXPECT_EQ(scalar::exp<float>(kInfinity), kInfinity);
  EXPECT_EQ(scalar::expm1<float>(-kInfinity), -1);
  EXPECT_EQ(scalar::log<float>(0), -kInfinity);
  EXPECT_EQ(scalar::log<float>(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(scalar::log<float>(-1)));
  EXPECT_EQ(scalar::log1p<float>(-1), -kInfinity);
  EXPECT_EQ(scalar::log1p<float>(kInfinity), kInfinity);
  EXPECT_EQ(scalar::tanh<float>(-kInfinity), -1);
  EXPECT_EQ(scalar::erf<float>(kInfinity), 1);
  EXPECT_EQ(scalar::sigmoid<float>(-kInfinity), 0);
  EXPECT_TRUE(std::isnan(scalar::sin<float>(kInfinity)));
  EXPECT_TRUE(std::isnan(scalar::cos<float>(-kInfinity)));
  for (float (*function)(float) :
       {scalar::exp<float>, scalar::expm1<float>, scalar::log<float>, scalar::log1p<float>,
        scalar::sin<float>, scalar::cos<float>, scalar::tanh<float>, scalar::erf<float>,
        scalar::sigmoid<float>, scalar::gelu<float>, scalar::gelu_tanh<float>,
        scalar::softplus<float>, scalar::silu<float>}) {
    EXPECT_TRUE(std::isnan(function(kNan)));
  }
}

TEST(ScalarIntegers, DivideTowardsMinusInfinityAndWrap) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(scalar::div<int64_t>(-7, 2), -4);
  EXPECT_EQ(scalar::remainder<int64_t>(-7, 2), 1);
  EXPECT_EQ(scalar::remainder<int64_t>(7, -2), -1);
  EXPECT_EQ(scalar::div<int64_t>(5, 0), 0);
  EXPECT_EQ(scalar::div<int64_t>(kMin, -1), kMin);
  EXPECT_EQ(scalar::add<int64_t>(kMin, -1), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace mstrain
