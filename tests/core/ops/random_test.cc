#include "core/ops/random.h"
#include "core/ir/backend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/random_draw.h"
#include "core/ops/statistics.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;
using Random = OnReference;

TEST_F(Random, ElementsAreTheWordsOfTheirStream) {
  const Tensor key = rng_key(0x1234567890);
  const RandomStream stream{philox_key(0x1234567890), static_cast<uint64_t>(random_site("x"))};
  const std::vector<double> bits = to_doubles(random_bits(key, {2, 5}, {.site = "x"}));
  const std::vector<double> wide =
      to_doubles(normal(key, {3}, {.site = "x", .dtype = Dtype::kF64}));
  for (uint64_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(bits[i], stream.word(i));
  }
  for (uint64_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(wide[i], stream.normal(Dtype::kF64, i));
  }
}

TEST_F(Random, TheSiteIsTheScopesPath) {
  const auto draw = [](std::string_view site) {
    return to_doubles(uniform(rng_key(1), {4}, {.site = site}));
  };
  const auto alone = draw("h.3.attn");
  const NameScope outer("h.3");
  EXPECT_EQ(draw("attn"), alone);
  EXPECT_NE(draw("mlp"), alone);
}

TEST_F(Random, KeysFoldedWithNeighbouringNumbersAreUnrelated) {
  const auto folded = [](uint64_t seed, int step) {
    return to_doubles(fold_in(rng_key(seed), step));
  };
  EXPECT_NE(folded(5, 3), folded(6, 2));
  EXPECT_NE(folded(5, 3), folded(5, 4));
  EXPECT_EQ(folded(5, 3), to_doubles(fold_in(rng_key(5), scalar(3, Dtype::kI32))));
  EXPECT_EQ(folded(5, -1), to_doubles(fold_in(rng_key(5), scalar(-1, Dtype::kI64))));
}

// Mean and variance of 20,000 draws lie within five standard errors.
TEST_F(Random, MomentsAreRight) {
  for (const Dtype dtype : {Dtype::kF64, Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
    const Tensor u = cast(uniform(rng_key(11), {20000}, {.dtype = dtype}), Dtype::kF64);
    const Tensor z = cast(normal(rng_key(12), {20000}, {.dtype = dtype}), Dtype::kF64);
    EXPECT_NEAR(item(mean(u)), 0.5, 5 * std::sqrt(1.0 / 12 / 20000) + 0.002) << name_of(dtype);
    EXPECT_NEAR(item(variance(u)), 1.0 / 12, 0.004) << name_of(dtype);
    EXPECT_GE(item(min(u)), 0);
    EXPECT_LT(item(max(u)), 1) << name_of(dtype);
    EXPECT_NEAR(item(mean(z)), 0, 5 / std::sqrt(20000.0)) << name_of(dtype);
    EXPECT_NEAR(item(variance(z)), 1, 5 * std::sqrt(2.0 / 20000)) << name_of(dtype);
  }
}

TEST_F(Random, BernoulliAndCategoricalHaveTheirProbabilities) {
  const Tensor heads = cast(bernoulli(rng_key(3), 0.3, {20000}), Dtype::kF64);
  EXPECT_NEAR(item(mean(heads)), 0.3, 5 * std::sqrt(0.21 / 20000));
  const Tensor logits = log(broadcast_to(f64({0.5, 0.3, 0.2}, {3}), {20000, 3}));
  const Tensor drawn = categorical(rng_key(4), logits);
  for (const auto& [which, probability] : {std::pair{0, 0.5}, {1, 0.3}, {2, 0.2}}) {
    EXPECT_NEAR(item(mean(cast(equal(drawn, which), Dtype::kF64))), probability,
                5 * std::sqrt(0.25 / 20000));
  }
}

TEST_F(Random, AnImpossibleClassIsNeverDrawn) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor logits = broadcast_to(f64({0, -infinity, 0}, {3}), {2000, 3});
  EXPECT_EQ(item(sum(cast(equal(categorical(rng_key(9), logits), 1), Dtype::kI32))), 0);
}

TEST_F(Random, PermutationHoldsEveryNumberOnce) {
  std::vector<double> order = to_doubles(permutation(rng_key(5), 100));
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i], static_cast<double>(i));
  }
}

TEST_F(Random, DropoutKeepsTheMean) {
  const Tensor x = full({20000}, 2, Dtype::kF64);
  const Tensor y = dropout(x, 0.25, rng_key(6));
  EXPECT_NEAR(item(mean(y)), 2, 5 * 2 * std::sqrt(0.25 / 0.75 / 20000));
  EXPECT_NEAR(item(max(y)), 2 / 0.75, 1e-12);
  EXPECT_EQ(item(min(y)), 0);
  EXPECT_EQ(dropout(x, 0, rng_key(6)).identity(), x.identity());
  EXPECT_EQ(item(max(abs(dropout(x, 1, rng_key(6))))), 0);
  EXPECT_THAT(error_of([&] { dropout(x, 1.5, rng_key(6)); }),
              HasSubstr("dropout: a rate of 1.5 is outside of [0, 1]"));
}

Tensor offset_of(std::initializer_list<int32_t> dims) {
  const std::vector<int32_t> values(dims);
  return tensor<int32_t>(values, {static_cast<int64_t>(values.size())});
}

// Shapes of parts: whole rows, from within a block of words and longer than a tile; parts of every dim; one element.
TEST(RandomPart, IsWhatTheWholeDrawHasThere) {
  struct Part {
    Shape shape, whole;
    std::vector<int32_t> offset;
  };
  const Part parts[] = {{{2, 3, 7}, {9, 3, 7}, {5, 0, 0}},
                        {{3, 1033}, {8, 1033}, {3, 0}},
                        {{2, 3, 5}, {4, 7, 6}, {1, 3, 1}},
                        {{1, 1}, {3, 5}, {2, 4}},
                        {{2, 2, 3}, {2, 6, 3}, {0, 4, 0}}};
  const Tensor key = rng_key(77);
  for (const Backend* backend : {backend_named("reference"), backend_named("cpu")}) {
    Context context = current_context();
    context.backend = backend;
    const ContextScope scope(context);
    for (const auto& [shape, whole, offset] : parts) {
      for (const Dtype dtype : {Dtype::kF64, Dtype::kF32, Dtype::kBF16}) {
        for (const auto draw : {uniform, normal}) {
          const RandomPart part{tensor<int32_t>(offset, {shape.rank()}), whole};
          Tensor expected = draw(key, whole, {.site = "x", .dtype = dtype});
          for (int dim = 0; dim < shape.rank(); ++dim) {
            const int64_t from = offset[static_cast<size_t>(dim)];
            expected = slice(expected, dim, from, from + shape[dim]);
          }
          const Tensor drawn = draw(key, shape, {.site = "x", .part = part, .dtype = dtype});
          EXPECT_EQ(to_doubles(drawn), to_doubles(expected))
              << to_string(shape) << " of " << to_string(whole) << " " << name_of(dtype);
        }
      }
    }
  }
}

TEST(RandomPart, BeyondFourThousandMillionElementsIsCountedRight) {
  const RandomPart part{offset_of({3'000'000, 0}), {4'000'000, 3000}};
  const std::vector<double> drawn = to_doubles(random_bits(rng_key(5), {1, 3000}, {.part = part}));
  const RandomStream stream{philox_key(5), static_cast<uint64_t>(random_site(""))};
  for (uint64_t i = 0; i < drawn.size(); ++i) {
    ASSERT_EQ(drawn[i], stream.word(9'000'000'000 + i)) << i;
  }
}

TEST(RandomPart, OutsideOfItsWholeIsAnError) {
  const auto draw = [](const Tensor& offset, const Shape& whole) {
    return error_of([&] {
      to_doubles(uniform(rng_key(1), {2, 3}, {.part = RandomPart{offset, whole}}));
    });
  };
  for (const Backend* backend : {backend_named("reference"), backend_named("cpu")}) {
    Context context = current_context();
    context.backend = backend;
    const ContextScope scope(context);
    EXPECT_THAT(draw(offset_of({3, 0}), {4, 3}),
                HasSubstr("a part [2, 3] of [4, 3] at 3 of dim 0"));
    EXPECT_THAT(draw(offset_of({0, -1}), {4, 5}), HasSubstr("at -1 of dim 1"));
  }
  EXPECT_THAT(draw(offset_of({0, 0}), {4, 2}), HasSubstr("[2, 3] is no part of [4, 2]"));
  EXPECT_THAT(draw(offset_of({0}), {4, 3}), HasSubstr("is i32[1], not i32[2]"));
}

TEST_F(Random, KeysMustBeKeys) {
  EXPECT_THAT(error_of([] { uniform(scalar(1), {2}); }),
              HasSubstr("random: the key is f32[], not u32[2]"));
}

TEST_F(Random, NegativeDimsAreErrors) {
  const Tensor key = rng_key(1);
  EXPECT_THAT(error_of([&] { uniform(key, {-1}); }), HasSubstr("a dim of [-1] is negative"));
  EXPECT_THAT(error_of([&] { normal(key, {-2, -3}); }), HasSubstr("a dim of [-2, -3] is negative"));
  EXPECT_THAT(error_of([&] {
                random_bits(key, {2, -3});
              }),
              HasSubstr("a dim of [2, -3] is negative"));
}

}  // namespace
}  // namespace mstrain
