#include "core/ops/conv.h"

#include "core/transform/grad.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Convolution = OnReference;

TEST_F(Convolution, SumsProductsOfItsWindow) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3});
  const Tensor weight = f64({1, 0, 0, -1}, {1, 1, 2, 2});
  EXPECT_THAT(to_doubles(conv2d(x, weight)), ElementsAre(-4, -4, -4, -4));
  const Tensor padded = conv2d(x, weight, {.stride = {2, 2}, .padding = {1, 0, 1, 0}});
  EXPECT_EQ(padded.shape(), (Shape{1, 1, 2, 2}));
  EXPECT_THAT(to_doubles(padded), ElementsAre(-1, -3, -7, -4));
  EXPECT_THAT(to_doubles(conv2d(x, weight, {.dilation = {2, 2}})), ElementsAre(-8));
}

TEST_F(Convolution, GroupsDoNotMix) {
  const Tensor x = random_tensor({2, 4, 5, 5}, 1);
  const Tensor weight = random_tensor({6, 2, 3, 3}, 2);
  const Tensor apart = concat(std::array{conv2d(slice(x, 1, 0, 2), slice(weight, 0, 0, 3)),
                                         conv2d(slice(x, 1, 2, 4), slice(weight, 0, 3, 6))},
                              1);
  EXPECT_LT(greatest_difference(conv2d(x, weight, {.groups = 2}), apart), 1e-14);
}

TEST_F(Convolution, PoolingTakesTheGreatestAndTheMean) {
  const Tensor x = f64({1, 5, 2, 0, 3, 4, 8, 8, -1, -2, -3, -4, -5, -6, -7, -8}, {1, 1, 4, 4});
  EXPECT_THAT(to_doubles(max_pool2d(x)), ElementsAre(5, 8, -1, -3));
  EXPECT_THAT(to_doubles(avg_pool2d(x)), ElementsAre(3.25, 4.5, -3.5, -5.5));
  // Padding is never the maximum, and counts as zeros in a mean.
  const Pool2dOptions padded{.window = {2, 2}, .stride = {4, 4}, .padding = {1, 0, 1, 0}};
  EXPECT_THAT(to_doubles(max_pool2d(neg(x), padded)), ElementsAre(-1));
  EXPECT_THAT(to_doubles(avg_pool2d(x, padded)), ElementsAre(0.25));
}

TEST_F(Convolution, TheFirstOfEqualMaximaHasTheDerivative) {
  const Tensor x = f64({8, 8, 8, 8}, {1, 1, 2, 2});
  const Tensor gradient = grad([](const Tensor& t) { return sum(max_pool2d(t)); })(x);
  EXPECT_THAT(to_doubles(gradient), ElementsAre(1, 0, 0, 0));
}

TEST_F(Convolution, MistakesNameTheShapes) {
  const Tensor x = random_tensor({1, 3, 4, 4}, 3);
  EXPECT_THAT(error_of([&] {
                conv2d(x, random_tensor({2, 4, 3, 3}, 4));
              }),
              HasSubstr("conv2d: 3 channels in 1 groups do not fit a weight of [2, 4, 3, 3]"));
  EXPECT_THAT(error_of([&] {
                conv2d(x, random_tensor({2, 3, 5, 5}, 4));
              }),
              HasSubstr("conv2d: a window of 5 does not fit into 4 elements"));
  EXPECT_THAT(error_of([&] {
                max_pool2d(x, {.padding = {2, 0, 0, 0}});
              }),
              HasSubstr("max_pool: padding [2, 0, 0, 0] is not smaller than the window [2, 2]"));
}

}  // namespace
}  // namespace mstrain
