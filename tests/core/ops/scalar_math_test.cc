// Special values of the scalar functions; how exact they are is tested where loops are made of them.
#include "core/ops/scalar_math.h"

#include <gtest/gtest.h>

namespace mstrain {
namespace {

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
