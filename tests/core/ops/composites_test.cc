#include <cmath>
#include <limits>

#include "core/ops/adamw.h"
#include "core/ops/attention.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/norm.h"
#include "core/ops/softmax.h"
#include "core/ops/statistics.h"
#include "core/transform/grad.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Composites = OnReference;

TEST_F(Composites, SoftmaxOfLargeNumbersIsFinite) {
  const Tensor x = f64({1e4, 1e4 + std::log(3.0), -1e4}, {3});
  const std::vector<double> y = to_doubles(softmax(x));
  EXPECT_NEAR(y[0], 0.25, 1e-12);
  EXPECT_NEAR(y[1], 0.75, 1e-12);
  EXPECT_EQ(y[2], 0);
  EXPECT_NEAR(to_doubles(log_softmax(x))[0], std::log(0.25), 1e-12);
}

TEST_F(Composites, SoftmaxOverAnotherAxis) {
  const Tensor x = random_tensor({2, 3, 4}, 1);
  EXPECT_LT(greatest_difference(softmax(x, 1), transpose(softmax(transpose(x)))), 1e-15);
}

TEST_F(Composites, LogsumexpOfInfinitiesIsRight) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(item(logsumexp(f64({-infinity, -infinity}, {2}))), -infinity);
  EXPECT_EQ(item(logsumexp(f64({infinity, 1}, {2}))), infinity);
  EXPECT_NEAR(item(logsumexp(f64({800, 800}, {2}))), 800 + std::log(2.0), 1e-12);
}

TEST_F(Composites, StatisticsOfSixteenBitsAreRoundedOnce) {
  // The sum, 640,000, is beyond f16.
  EXPECT_EQ(item(mean(full({10000}, 64, Dtype::kF16))), 64);
  const Tensor x = f64({1, 2, 3, 4}, {2, 2});
  EXPECT_NEAR(item(variance(x)), 1.25, 1e-15);
  EXPECT_NEAR(item(variance(x, {}, false, 1)), 5.0 / 3, 1e-15);
  EXPECT_NEAR(item(standard_deviation(x)), std::sqrt(1.25), 1e-15);
  EXPECT_EQ(mean(x, {1}, true).shape(), (Shape{2, 1}));
}

TEST_F(Composites, NormalisedRowsHaveMeanZeroAndVarianceOne) {
  const Tensor x = 5 + 3 * random_tensor({4, 50}, 2);
  const Tensor y = layer_norm(x, full({50}, 1, Dtype::kF64), full({50}, 0, Dtype::kF64), 0);
  EXPECT_LT(item(max(abs(mean(y, {1})))), 1e-12);
  EXPECT_LT(item(max(abs(variance(y, {1}) - 1))), 1e-12);
  const Tensor r = rms_norm(x, full({50}, 2, Dtype::kF64), 0);
  EXPECT_LT(item(max(abs(mean(square(r), {1}) - 4))), 1e-12);
}

TEST_F(Composites, CrossEntropyIsTheMeanOverRowsThatCount) {
  const Tensor logits = f64({1, 2, 3, 0, 0, 0, 9, 9, 9}, {3, 3});
  const Tensor targets = ids({2, 0, -100});
  const double first = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 3;
  EXPECT_NEAR(item(cross_entropy(logits, targets)), (first + std::log(3.0)) / 2, 1e-12);
  EXPECT_EQ(to_doubles(cross_entropy_rows(logits, targets))[2], 0);
  const double smooth = 0.9 * first + 0.1 * (first + 3 - 2);
  EXPECT_NEAR(to_doubles(cross_entropy_rows(logits, targets, {.label_smoothing = 0.1}))[0], smooth,
              1e-12);
}

TEST_F(Composites, CrossEntropyOfNoRowsIsZeroWithoutDerivative) {
  const Tensor logits = random_tensor({2, 3}, 3);
  const auto loss = [](const Tensor& x) { return cross_entropy(x, ids({-100, -100})); };
  const auto [value, gradient] = value_and_grad(loss)(logits);
  EXPECT_EQ(item(value), 0);
  EXPECT_THAT(to_doubles(gradient), Each(0));
}

TEST_F(Composites, CrossEntropyNamesATargetOutOfRange) {
  EXPECT_THAT(error_of([] {
                cross_entropy(random_tensor({2, 3}, 4), ids({0, 3}));
              }),
              HasSubstr("id 3 at position 1 is outside of [0, 3)"));
  EXPECT_THAT(error_of([] {
                cross_entropy(random_tensor({2, 3}, 4), ids({0}));
              }),
              HasSubstr("cross_entropy: targets are [1], the rows of logits [2]"));
}

TEST_F(Composites, SumNamesAnAxisThatIsGivenTwice) {
  EXPECT_THAT(error_of([] {
                sum(random_tensor({2, 3}, 4), {1, -1});
              }),
              HasSubstr("reduce_sum: axes [1, -1] name axis -1 twice"));
}

// Attention of one query written out by hand.
TEST_F(Composites, AttentionIsAWeightedMeanOfValues) {
  const Tensor q = random_tensor({1, 1, 1, 4}, 5);
  const Tensor k = random_tensor({1, 3, 1, 4}, 6);
  const Tensor v = random_tensor({1, 3, 1, 2}, 7);
  const Tensor weights = softmax(sum(reshape(q, {1, 4}) * reshape(k, {3, 4}), {1}) / 2);
  const Tensor expected = sum(reshape(weights, {3, 1}) * reshape(v, {3, 2}), {0});
  EXPECT_LT(greatest_difference(reshape(attention(q, k, v), {2}), expected), 1e-14);
}

TEST_F(Composites, CausalQueriesSeeTheKeysUpToTheirOwn) {
  const Tensor q = random_tensor({2, 5, 3, 4}, 8);
  const Tensor k = random_tensor({2, 5, 3, 4}, 9);
  const Tensor v = random_tensor({2, 5, 3, 4}, 10);
  const Tensor all = attention(q, k, v, {.causal = true});
  EXPECT_LT(greatest_difference(slice(all, 1, 0, 1), slice(v, 1, 0, 1)), 1e-14);
  const auto first = [](const Tensor& x) { return slice(x, 1, 0, 3); };
  EXPECT_LT(
      greatest_difference(first(all), attention(first(q), first(k), first(v), {.causal = true})),
      1e-14);
  // The last queries of a longer sequence.
  EXPECT_LT(greatest_difference(slice(all, 1, 3, 5),
                                attention(slice(q, 1, 3, 5), k, v, {.causal = true})),
            1e-14);
}

TEST_F(Composites, AQueryThatSeesNothingGivesZeroAndNoDerivative) {
  const Tensor q = random_tensor({1, 3, 1, 2}, 11);
  const Tensor k = random_tensor({1, 2, 1, 2}, 12);
  const auto out = [&](const Tensor& x) { return attention(x, k, k, {.causal = true}); };
  EXPECT_THAT(to_doubles(slice(out(q), 1, 0, 1)), Each(0));
  const Tensor gradient = grad([&](const Tensor& x) { return sum(square(out(x))); })(q);
  EXPECT_THAT(to_doubles(slice(gradient, 1, 0, 1)), Each(0));
  EXPECT_GT(item(max(abs(gradient))), 0);
}

TEST_F(Composites, ABiasBroadcastsAndMayHideKeys) {
  const Tensor q = random_tensor({2, 3, 2, 4}, 13);
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor bias = f64({0, -infinity, -infinity, 0, 0, -infinity, 0, 0, 0}, {3, 3});
  EXPECT_LT(
      greatest_difference(attention(q, q, q, {.bias = bias}), attention(q, q, q, {.causal = true})),
      1e-14);
  EXPECT_THAT(error_of([&] {
                attention(q, q, q, {.bias = random_tensor({2, 3}, 1)});
              }),
              HasSubstr("attention: shapes [2, 3] and [2, 2, 3, 3] do not broadcast"));
}

TEST_F(Composites, AdamwFollowsItsFormula) {
  const auto scalar64 = [](double x) { return scalar(x, Dtype::kF64); };
  const auto [p, m, v] =
      adamw_update({f64({2}, {1}), f64({0.5}, {1}), f64({0.25}, {1})}, f64({4}, {1}),
                   {scalar64(0.1), scalar64(0.5), scalar64(0.19), scalar64(0.0975)},
                   {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.01});
  const double m1 = 0.9 * 0.5 + 0.1 * 2;
  const double v1 = 0.95 * 0.25 + 0.05 * 4;
  EXPECT_NEAR(item(m), m1, 1e-15);
  EXPECT_NEAR(item(v), v1, 1e-15);
  EXPECT_NEAR(item(p), 2 - 0.1 * (m1 / 0.19 / (std::sqrt(v1 / 0.0975) + 1e-3) + 0.01 * 2), 1e-14);
}

}  // namespace
}  // namespace mstrain
