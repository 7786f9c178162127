#include "core/nn/rotary.h"

#include <cmath>
#include <numbers>

#include "core/ops/build.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;

// q[1, t, 1, d] turned to positions from `first` on.
Tensor turned(const Tensor& x, double first, const RopeConfig& config = {}) {
  const int64_t t = x.dim(1);
  const Tensor positions = cast(iota({1, t}, 1), Dtype::kI32) + first;
  const Rotation r = rotation(config, x.dim(3), 64, positions,
                              full({1}, static_cast<double>(t), Dtype::kI32), Dtype::kF64);
  return rotary(x, r.cos, r.sin);
}

TEST(Rotary, ProductsDependOnTheDistanceAlone) {
  const Tensor q = random_tensor({1, 1, 1, 8}, 1);
  const Tensor k = random_tensor({1, 1, 1, 8}, 2);
  const double near = dot(turned(q, 5), turned(k, 2));
  EXPECT_NEAR(dot(turned(q, 25), turned(k, 22)), near, 1e-12);
  EXPECT_GT(std::abs(dot(turned(q, 26), turned(k, 22)) - near), 1e-3);
}

TEST(Rotary, TurnsHalvesAndNotNeighbours) {
  const Tensor x = tensor<double>(std::vector<double>{1, 2, 3, 4}, {1, 1, 1, 4});
  const std::vector<double> y = to_doubles(turned(x, 1, {.theta = 100}));
  const double slow = 0.1;  // 100^(-2/4)
  EXPECT_NEAR(y[0], std::cos(1) - 3 * std::sin(1), 1e-15);
  EXPECT_NEAR(y[2], 3 * std::cos(1) + std::sin(1), 1e-15);
  EXPECT_NEAR(y[1], 2 * std::cos(slow) - 4 * std::sin(slow), 1e-15);
  EXPECT_NEAR(y[3], 4 * std::cos(slow) + 2 * std::sin(slow), 1e-15);
}

TEST(Rotary, AnglesOfSixteenBitsAreMadeInF32) {
  const Tensor x = cast(random_tensor({1, 40, 1, 8}, 1), Dtype::kBF16);
  const Rotation r =
      rotation({}, 8, 64, iota({1, 40}, 1, Dtype::kI32), full({1}, 40, Dtype::kI32), Dtype::kF32);
  const Tensor y = rotary(x, r.cos, r.sin);
  EXPECT_EQ(y.dtype(), Dtype::kBF16);
  // Rounded once, to 8 bits.
  expect_near(cast(y, Dtype::kF64), turned(cast(x, Dtype::kF64), 0), 0x1p-7);
}

TEST(Rotary, DynamicGoesByTheLengthOfEachSequence) {
  const RopeConfig config{.type = RopeType::kDynamic, .factor = 2};
  const Tensor positions = iota({2, 1}, 0, Dtype::kI32) + 9;
  const auto cosines = [&](std::initializer_list<double> lengths) {
    return to_doubles(
        rotation(config, 8, 16, positions, vector(lengths, Dtype::kI32), Dtype::kF64).cos);
  };
  const std::vector<double> within = cosines({3, 16});
  const std::vector<double> plain =
      to_doubles(rotation({}, 8, 16, positions, vector({3, 16}, Dtype::kI32), Dtype::kF64).cos);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(within[i], plain[i], 1e-12);
  }
  const std::vector<double> beyond = cosines({16, 40});
  EXPECT_NEAR(beyond[1], plain[1], 1e-12);
  // theta (2 · 40 / 16 - 1)^(8/6) of the second.
  EXPECT_NEAR(beyond[5], std::cos(10 * std::pow(1e4 * std::pow(4, 8.0 / 6), -0.25)), 1e-12);
}

TEST(Rotary, Llama3LeavesFastPairsAndStretchesSlowOnes) {
  const RopeConfig config{
      .type = RopeType::kLlama3, .theta = 1e6, .factor = 8, .original_max_position_embeddings = 64};
  const std::vector<double> f = to_doubles(rope_frequencies(config, 16, 512, Dtype::kF64));
  const std::vector<double> plain =
      to_doubles(rope_frequencies({.theta = 1e6}, 16, 512, Dtype::kF64));
  for (size_t j = 0; j < f.size(); ++j) {
    const double turns = 64 * plain[j] / (2 * std::numbers::pi);
    if (turns < 1) {
      EXPECT_NEAR(f[j], plain[j] / 8, 1e-15 * plain[j]) << j;
    } else if (turns > 4) {
      EXPECT_NEAR(f[j], plain[j], 1e-15 * plain[j]) << j;
    } else {
      EXPECT_GT(f[j], plain[j] / 8) << j;
      EXPECT_LT(f[j], plain[j]) << j;
    }
  }
  EXPECT_NEAR(f.front(), plain.front(), 1e-15);
  EXPECT_NEAR(f.back(), plain.back() / 8, 1e-15 * plain.back());
}

TEST(Rotary, YarnScalesCosinesAndSines) {
  RopeConfig config{.type = RopeType::kYarn, .factor = 4};
  EXPECT_DOUBLE_EQ(rope_attention_factor(config), 0.1 * std::log(4) + 1);
  config.mscale = 2;
  config.mscale_all_dim = 1;
  EXPECT_DOUBLE_EQ(rope_attention_factor(config),
                   (0.2 * std::log(4) + 1) / (0.1 * std::log(4) + 1));
  config.attention_factor = 1.5;
  EXPECT_EQ(rope_attention_factor(config), 1.5);
  const Tensor x = random_tensor({1, 1, 1, 8}, 1);
  EXPECT_NEAR(dot(turned(x, 9, config), turned(x, 9, config)), 1.5 * 1.5 * dot(x, x), 1e-12);
}

TEST(Rotary, ConfigurationsThatMeanNothingAreRefused) {
  const auto message = [](const RopeConfig& config, int64_t head_dim = 8) {
    return error_of([&] { check_rope_config(config, "model.rope", head_dim); });
  };
  EXPECT_EQ(message({}), "no error");
  EXPECT_THAT(message({.factor = 2}),
              HasSubstr("model.rope.factor: means nothing to the type default"));
  EXPECT_THAT(message({.type = RopeType::kLinear, .beta_fast = 3}),
              HasSubstr("model.rope.beta_fast"));
  EXPECT_THAT(message({.type = RopeType::kLlama3, .low_freq_factor = 4}),
              HasSubstr("model.rope.high_freq_factor: 4 is not more than low_freq_factor 4"));
  EXPECT_THAT(message({.type = RopeType::kDynamic, .factor = 2}, 2), HasSubstr("model.rope.type"));
  EXPECT_THAT(error_of([] {
                rotary(full({1, 1, 1, 3}, 1), full({1, 1, 1}, 1), full({1, 1, 1}, 1));
              }),
              HasSubstr("[1, 1, 1, 3] is not [batch, time, heads, dim] with an even dim"));
}

}  // namespace
}  // namespace mstrain
