// Grouped queries, windows, places, key masks and relative biases mean what they say; buckets are those of transformers.
#include "core/ops/attention.h"

#include <utility>

#include "core/ops/attention_form.h"
#include "core/ops/index.h"
#include "core/transform/grad.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Attention = OnReference;

struct Buckets {
  RelativeBuckets rule;
  std::vector<std::pair<int64_t, int64_t>> runs;  // from which distance on, and the bucket
};

// From T5Attention._relative_position_bucket of transformers 5.23, of the distances -1200 to 1200.
const Buckets kBuckets[] = {
    {{32, 128, true},
     {{-1200, 15}, {-90, 14}, {-63, 13}, {-45, 12}, {-31, 11}, {-22, 10}, {-15, 9}, {-11, 8},
      {-7, 7},     {-6, 6},   {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},  {0, 0},
      {1, 17},     {2, 18},   {3, 19},   {4, 20},   {5, 21},   {6, 22},   {7, 23},  {8, 24},
      {12, 25},    {16, 26},  {23, 27},  {32, 28},  {46, 29},  {64, 30},  {91, 31}}},
    {{32, 128, false},
     {{-1200, 31}, {-112, 30}, {-98, 29}, {-86, 28}, {-76, 27}, {-66, 26}, {-58, 25}, {-51, 24},
      {-45, 23},   {-39, 22},  {-34, 21}, {-30, 20}, {-26, 19}, {-23, 18}, {-20, 17}, {-18, 16},
      {-15, 15},   {-14, 14},  {-13, 13}, {-12, 12}, {-11, 11}, {-10, 10}, {-9, 9},   {-8, 8},
      {-7, 7},     {-6, 6},    {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},   {0, 0}}},
    {{64, 500, true},
     {{-1200, 31}, {-403, 30}, {-325, 29}, {-262, 28}, {-211, 27}, {-170, 26}, {-137, 25},
      {-110, 24},  {-89, 23},  {-72, 22},  {-58, 21},  {-46, 20},  {-37, 19},  {-30, 18},
      {-24, 17},   {-19, 16},  {-15, 15},  {-14, 14},  {-13, 13},  {-12, 12},  {-11, 11},
      {-10, 10},   {-9, 9},    {-8, 8},    {-7, 7},    {-6, 6},    {-5, 5},    {-4, 4},
      {-3, 3},     {-2, 2},    {-1, 1},    {0, 0},     {1, 33},    {2, 34},    {3, 35},
      {4, 36},     {5, 37},    {6, 38},    {7, 39},    {8, 40},    {9, 41},    {10, 42},
      {11, 43},    {12, 44},   {13, 45},   {14, 46},   {15, 47},   {16, 48},   {20, 49},
      {25, 50},    {31, 51},   {38, 52},   {47, 53},   {59, 54},   {73, 55},   {90, 56},
      {111, 57},   {138, 58},  {171, 59},  {212, 60},  {263, 61},  {326, 62},  {404, 63}}},
    {{48, 1000, false},
     {{-1200, 47}, {-856, 46}, {-732, 45}, {-627, 44}, {-537, 43}, {-459, 42}, {-393, 41},
      {-336, 40},  {-288, 39}, {-246, 38}, {-211, 37}, {-180, 36}, {-154, 35}, {-132, 34},
      {-113, 33},  {-97, 32},  {-83, 31},  {-71, 30},  {-60, 29},  {-52, 28},  {-44, 27},
      {-38, 26},   {-32, 25},  {-28, 24},  {-23, 23},  {-22, 22},  {-21, 21},  {-20, 20},
      {-19, 19},   {-18, 18},  {-17, 17},  {-16, 16},  {-15, 15},  {-14, 14},  {-13, 13},
      {-12, 12},   {-11, 11},  {-10, 10},  {-9, 9},    {-8, 8},    {-7, 7},    {-6, 6},
      {-5, 5},     {-4, 4},    {-3, 3},    {-2, 2},    {-1, 1},    {0, 0}}},
    {{9, 20, true}, {{-1200, 3}, {-6, 2}, {-1, 1}, {0, 0}, {1, 5}, {2, 6}, {7, 7}}},
    {{7, 12, false}, {{-1200, 6}, {-8, 5}, {-5, 4}, {-4, 3}, {-2, 2}, {-1, 1}, {0, 0}}},
    {{4, 3, true}, {{-1200, 1}, {0, 0}, {1, 3}}},
    {{2, 2, false}, {{-1200, 1}, {0, 0}}},
    {{8, 5, false}, {{-1200, 7}, {-4, 4}, {-3, 3}, {-2, 2}, {-1, 1}, {0, 0}}},
};

TEST_F(Attention, EveryDistanceHasTheBucketThatTransformersGivesIt) {
  for (const Buckets& expected : kBuckets) {
    const RelativeBuckets& rule = expected.rule;
    SCOPED_TRACE(fmt::format("{} buckets up to {}", rule.count, rule.max_distance));
    size_t run = 0;
    for (int64_t distance = -1200; distance <= 1200; ++distance) {
      if (run + 1 < expected.runs.size() && expected.runs[run + 1].first == distance) {
        ++run;
      }
      ASSERT_EQ(rule.of(distance), expected.runs[run].second) << distance;
    }
    const std::vector<int64_t> least = rule.least_sizes();
    for (size_t bucket = 0; bucket < least.size(); ++bucket) {
      for (int64_t size = 0; size <= 1200; ++size) {
        ASSERT_EQ(rule.of(-size) >= static_cast<int64_t>(bucket), size >= least[bucket]);
      }
    }
  }
}

// [b, s, g, d] with each head repeated.
Tensor repeated(const Tensor& x, int64_t times) {
  return flatten(broadcast_to(expand_dims(x, 3), {x.dim(0), x.dim(1), x.dim(2), times, x.dim(3)}),
                 2, 3);
}

TEST_F(Attention, HeadsOfAGroupReadTheSameKeys) {
  const Tensor q = random_tensor({2, 5, 6, 4}, 1);
  const Tensor k = random_tensor({2, 5, 2, 4}, 2);
  const Tensor v = random_tensor({2, 5, 2, 3}, 3);
  const auto loss = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return sum(square(attention(a, b, c, {.causal = true})));
  };
  EXPECT_LT(greatest_difference(attention(q, k, v, {.causal = true}),
                                attention(q, repeated(k, 3), repeated(v, 3), {.causal = true})),
            1e-14);
  const auto [dq, dk, dv] = grad<0, 1, 2>(loss)(q, k, v);
  const auto [rq, rk, rv] = grad<0, 1, 2>([&](const Tensor& a, const Tensor& b, const Tensor& c) {
    return loss(a, repeated(b, 3), repeated(c, 3));
  })(q, k, v);
  EXPECT_LT(greatest_difference(dq, rq), 1e-13);
  EXPECT_LT(greatest_difference(dk, rk), 1e-13);
  EXPECT_LT(greatest_difference(dv, rv), 1e-13);
}

TEST_F(Attention, AWindowHoldsTheKeysThatEndWithTheQuerysOwn) {
  const Tensor x = random_tensor({1, 7, 2, 4}, 4);
  for (const int64_t window : {1, 3, 7, 20}) {
    const Tensor out = attention(x, x, x, {.causal = true, .window = window});
    for (int64_t i = 0; i < 7; ++i) {
      const Tensor keys = slice(x, 1, std::max<int64_t>(0, i + 1 - window), i + 1);
      EXPECT_LT(greatest_difference(slice(out, 1, i, i + 1),
                                    attention(slice(x, 1, i, i + 1), keys, keys)),
                1e-14)
          << window << ' ' << i;
    }
  }
}

TEST_F(Attention, APlaceLetsQueriesReadACacheThatIsLongerThanWhatWasWritten) {
  const Tensor x = random_tensor({2, 9, 2, 4}, 5);
  const Tensor table = random_tensor({8, 2}, 6);
  const RelativeBias relative{table, 6, false};
  const Tensor out =
      attention(slice(x, 1, 2, 4), x, x,
                {.causal = true, .window = 3, .start = ids({2, 5}), .relative = relative});
  for (const auto& [row, start] : {std::pair<int64_t, int64_t>{0, 2}, {1, 5}}) {
    const Tensor text = slice(slice(x, 0, row, row + 1), 1, 0, start + 2);
    const Tensor query = slice(slice(x, 0, row, row + 1), 1, 2, 4);
    EXPECT_LT(greatest_difference(slice(out, 0, row, row + 1),
                                  attention(query, text, text,
                                            {.causal = true, .window = 3, .relative = relative})),
              1e-14);
  }
}

TEST_F(Attention, AKeyMaskHidesKeysFromEveryQuery) {
  const Tensor q = random_tensor({2, 3, 2, 4}, 7);
  const Tensor k = random_tensor({2, 5, 2, 4}, 8);
  const Tensor mask = cast(f64({1, 1, 1, 0, 0, 0, 0, 0, 0, 0}, {2, 5}), Dtype::kBool);
  const auto out = [&](const Tensor& keys) { return attention(q, keys, keys, {.key_mask = mask}); };
  const auto first = [](const Tensor& x) { return slice(x, 0, 0, 1); };
  const Tensor seen = slice(first(k), 1, 0, 3);
  EXPECT_LT(greatest_difference(first(out(k)), attention(first(q), seen, seen)), 1e-14);
  EXPECT_THAT(to_doubles(slice(out(k), 0, 1, 2)), Each(0));
  const Tensor gradient = grad([&](const Tensor& keys) { return sum(square(out(keys))); })(k);
  EXPECT_THAT(to_doubles(slice(gradient, 0, 1, 2)), Each(0));
  EXPECT_THAT(to_doubles(slice(first(gradient), 1, 3, 5)), Each(0));
  EXPECT_GT(item(max(abs(gradient))), 0);
}

TEST_F(Attention, ARelativeBiasIsTheBiasOfItsBuckets) {
  const Tensor q = random_tensor({2, 4, 3, 5}, 9);
  const Tensor k = random_tensor({2, 6, 3, 5}, 10);
  const Tensor table = random_tensor({8, 3}, 11);
  for (const bool bidirectional : {false, true}) {
    const RelativeBuckets rule{8, 5, bidirectional};
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 6; ++j) {
        rows.push_back(static_cast<int32_t>(rule.of(j - (i + 2))));
      }
    }
    const Tensor buckets = tensor<int32_t>(rows, {4, 6});
    const auto by_bias = [&](const Tensor& w) {
      return attention(q, k, k, {.bias = transpose(gather(w, buckets), {2, 0, 1})});
    };
    const auto by_table = [&](const Tensor& w) {
      return attention(q, k, k, {.relative = RelativeBias{w, 5, bidirectional}});
    };
    EXPECT_LT(greatest_difference(by_table(table), by_bias(table)), 1e-14);
    const auto gradient = [&](const auto& f) {
      return grad([&](const Tensor& w) { return sum(square(f(w))); })(table);
    };
    EXPECT_LT(greatest_difference(gradient(by_table), gradient(by_bias)), 1e-13);
  }
}

TEST_F(Attention, WhatDoesNotFitIsAnErrorThatSaysWhy) {
  const Tensor q = random_tensor({2, 3, 4, 2}, 12);
  const Tensor k = random_tensor({2, 3, 3, 2}, 13);
  const auto error = [&](const Tensor& keys, const AttentionOptions& options) {
    return error_of([&] { attention(q, keys, keys, options); });
  };
  EXPECT_THAT(error(k, {}), HasSubstr("3 key heads do not divide 4 query heads"));
  EXPECT_THAT(error(q, {.window = 2}), HasSubstr("a window is positive, and causal"));
  EXPECT_THAT(error(q, {.causal = true, .window = -1}), HasSubstr("a window of -1 keys"));
  EXPECT_THAT(error(q, {.key_mask = q}), HasSubstr("attention: "));
  EXPECT_THAT(error(q, {.key_mask = f64({1, 1, 1}, {3})}), HasSubstr("a key mask is f64[2, 3]"));
  EXPECT_THAT(error(q, {.start = f64({1}, {1})}),
              HasSubstr("the place of the first query is f64[2], not i32[2]"));
  const auto table = [](int64_t buckets, int64_t heads, int64_t most, bool bidirectional) {
    return AttentionOptions{
        .relative = RelativeBias{random_tensor({buckets, heads}, 14), most, bidirectional}};
  };
  EXPECT_THAT(error(q, table(8, 3, 128, true)), HasSubstr("does not fit 4 heads"));
  EXPECT_THAT(error(q, table(3, 4, 128, true)),
              HasSubstr("3 buckets of relative biases are too few"));
  EXPECT_THAT(error(q, table(32, 4, 16, false)),
              HasSubstr("a greatest distance of 16 is not above 16"));
}

}  // namespace
}  // namespace mstrain
