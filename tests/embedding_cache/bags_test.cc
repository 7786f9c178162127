// Rows pooled into bags against plain loops, and what they learn against the same gradients written out by position.
#include "embedding_cache/bags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/rng.h"
#include "embedding_cache/cache.h"
#include "tests/core/base/message_of.h"

namespace mstrain::embedding_cache {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kDeep = 5, kWide = 1, kWidth = kDeep + kWide;
constexpr size_t kBags = 600;

Options options_of(int threads) {
  Options options;
  options.store.kind = StoreKind::kMemory;
  options.threads = threads;
  const Segment deep{.width = kDeep, .optimizer = {.kind = OptimizerKind::kLazyAdam}};
  const Segment wide{.width = kWide, .optimizer = {.kind = OptimizerKind::kFtrl}};
  options.tables = {{.name = "a", .host_rows = 500, .segments = {deep, wide}},
                    {.name = "b", .host_rows = 500, .segments = {deep, wide}}};
  return options;
}

// A batch of bags of 0 to 20 ids, many of them repeated.
struct RandomBatch {
  explicit RandomBatch(uint64_t seed) {
    Rng rng(seed);
    for (size_t bag = 0; bag < kBags; ++bag) {
      for (uint64_t n = rng.below(4) == 0 ? 0 : rng.below(20); n > 0; --n) {
        ids.push_back(rng.below(300));
        weights.push_back(static_cast<float>(rng.below(1000)) / 250 - 2);
      }
      offsets.push_back(static_cast<uint32_t>(ids.size()));
    }
  }
  size_t size_of(size_t bag) const { return offsets[bag + 1] - offsets[bag]; }

  std::vector<Id> ids;
  std::vector<uint32_t> offsets{0};
  std::vector<float> weights;
};

std::vector<float> noise(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(),
                [&] { return static_cast<float>(rng.below(2001)) / 1000 - 1; });
  return out;
}

// Learns something first, so that rows and states are no longer those of the beginning.
Ticket open_batch(Cache& cache, uint32_t table, const std::vector<Id>& ids) {
  Ticket first = cache.prefetch(table, ids, 1);
  cache.wait(first);
  cache.update(first, noise(ids.size() * kWidth, 1));
  cache.release(std::move(first));
  Ticket ticket = cache.prefetch(table, ids, 2);
  cache.wait(ticket);
  return ticket;
}

// Float k of bag b, of `rows` by position, by the definition.
float pooled(const RandomBatch& batch, const Bags& bags, const std::vector<float>& rows, size_t b,
             size_t k) {
  float out = 0;
  for (uint32_t p = batch.offsets[b]; p < batch.offsets[b + 1]; ++p) {
    const float x = rows[p * kWidth + k] * (bags.weights.empty() ? 1.0F : bags.weights[p]);
    const bool first = p == batch.offsets[b];
    out = first ? x : bags.pooling == Pooling::kMax ? std::max(out, x) : out + x;
  }
  const bool divides = bags.pooling == Pooling::kMean && batch.size_of(b) > 1;
  return divides ? out * (1.0F / static_cast<float>(batch.size_of(b))) : out;
}

TEST(Bags, ArePooledAsALoopWould) {
  const RandomBatch batch(3);
  for (const int threads : {1, 2}) {
    Cache cache = Cache::open(options_of(threads));
    const Ticket ticket = open_batch(cache, 0, batch.ids);
    std::vector<float> rows(batch.ids.size() * kWidth);
    cache.gather(ticket, rows.data(), kWidth);
    for (const Bags& bags :
         {Bags{.offsets = batch.offsets}, Bags{.offsets = batch.offsets, .weights = batch.weights},
          Bags{.offsets = batch.offsets, .pooling = Pooling::kMean, .segment = 0, .per_row = 3},
          Bags{.offsets = batch.offsets, .pooling = Pooling::kMax, .per_row = 2},
          Bags{.offsets = batch.offsets, .segment = 1}}) {
      const uint32_t width = bags.segment ? (*bags.segment == 0 ? kDeep : kWide) : kWidth;
      const uint32_t first = bags.segment.value_or(0) * kDeep;
      const size_t stride = bags.per_row * width + 2;
      const Tile tile{.begin = 7, .end = kBags / bags.per_row - 1};
      std::vector<float> out((tile.end - tile.begin) * stride, -77);
      cache.gather(ticket, bags, out.data(), stride, tile);
      for (size_t row = tile.begin; row < tile.end; ++row) {
        const float* const at = &out[(row - tile.begin) * stride];
        for (size_t k = 0; k < bags.per_row * width; ++k) {
          ASSERT_EQ(at[k],
                    pooled(batch, bags, rows, row * bags.per_row + k / width, first + k % width));
        }
        ASSERT_EQ(at[stride - 1], -77);
      }
    }
  }
}

TEST(Bags, OfSeveralTablesMakeOneMatrix) {
  const RandomBatch a(4), b(5);
  Cache cache = Cache::open(options_of(2));
  const Ticket tickets[] = {open_batch(cache, 0, a.ids), open_batch(cache, 1, b.ids)};
  std::vector<float> together(kBags * 2 * kDeep), each(kBags * kDeep);
  const Bags of_a{.offsets = a.offsets, .segment = 0};
  const Bags of_b{.offsets = b.offsets, .pooling = Pooling::kMean, .segment = 0};
  const Lookup lookups[] = {{&tickets[0], of_a, together.data(), 2 * kDeep},
                            {&tickets[1], of_b, together.data() + kDeep, 2 * kDeep}};
  cache.gather(lookups);
  for (size_t t = 0; t < 2; ++t) {
    cache.gather(tickets[t], t == 0 ? of_a : of_b, each.data(), kDeep);
    for (size_t i = 0; i < each.size(); ++i) {
      ASSERT_EQ(together[i / kDeep * 2 * kDeep + t * kDeep + i % kDeep], each[i]);
    }
  }
}

// d bags of all kinds, of each segment in another way: the same bits as gradients by position.
TEST(Bags, TeachTheirRowsAsPositionsWould) {
  const RandomBatch batch(6);
  const std::vector<float> d_deep = noise(kBags * kDeep, 7), d_wide = noise(kBags, 8);
  for (const Pooling pooling : {Pooling::kSum, Pooling::kMean, Pooling::kMax}) {
    const Bags deep{.offsets = batch.offsets, .pooling = pooling, .segment = 0, .per_row = 4};
    const Bags wide{.offsets = batch.offsets, .weights = batch.weights, .segment = 1};
    std::string expected;
    for (const int threads : {1, 2}) {
      Cache by_position = Cache::open(options_of(threads));
      Ticket ticket = open_batch(by_position, 0, batch.ids);
      std::vector<float> rows(batch.ids.size() * kWidth), gradients(rows.size());
      by_position.gather(ticket, rows.data(), kWidth);
      for (size_t bag = 0; bag < kBags; ++bag) {
        const auto from = batch.offsets[bag], to = batch.offsets[bag + 1];
        for (uint32_t p = from; p < to; ++p) {
          for (size_t k = 0; k < kDeep; ++k) {
            uint32_t best = from;
            for (uint32_t q = from; q < to; ++q) {
              best = rows[q * kWidth + k] > rows[best * kWidth + k] ? q : best;
            }
            const float scale = pooling == Pooling::kMean  ? 1.0F / static_cast<float>(to - from)
                                : pooling == Pooling::kMax ? (best == p ? 1.0F : 0.0F)
                                                           : 1.0F;
            gradients[p * kWidth + k] = scale * d_deep[bag * kDeep + k];
          }
          gradients[p * kWidth + kDeep] = batch.weights[p] * d_wide[bag];
        }
      }
      by_position.update(ticket, gradients);
      by_position.release(std::move(ticket));

      Cache by_bag = Cache::open(options_of(threads));
      ticket = open_batch(by_bag, 0, batch.ids);
      const BagGradients both[] = {{deep, d_deep.data(), 4 * kDeep}, {wide, d_wide.data(), 1}};
      by_bag.update(ticket, both);
      by_bag.release(std::move(ticket));
      EXPECT_EQ(by_bag.digest(), by_position.digest()) << static_cast<int>(pooling) << threads;
      expected = expected.empty() ? by_bag.digest() : expected;
      EXPECT_EQ(by_bag.digest(), expected);
    }
  }
}

TEST(Bags, ThatContradictThemselvesAreRefusedAndNothingLearns) {
  Cache cache = Cache::open(options_of(1));
  Ticket ticket = open_batch(cache, 0, {1, 2, 3});
  std::vector<float> out(100);
  const auto refusal = [&](const Bags& bags, size_t stride = kWidth) {
    return error_of([&] { cache.gather(ticket, bags, out.data(), stride); });
  };
  const std::vector<uint32_t> late{0, 2}, falls{0, 3, 1, 3}, two{0, 1, 3};
  const std::vector<float> weights{1, 2};
  EXPECT_THAT(refusal({.offsets = late}),
              HasSubstr("offsets from 0 to 2, but the batch has positions 0 to 3"));
  EXPECT_THAT(refusal({.offsets = falls}), HasSubstr("offsets fall after bag 1"));
  EXPECT_THAT(refusal({.weights = weights}), HasSubstr("2 weights for 3 positions"));
  const std::vector<float> three{1, 2, 3};
  EXPECT_THAT(refusal({.pooling = Pooling::kMean, .weights = three}),
              HasSubstr("weights are for sums"));
  EXPECT_THAT(refusal({.segment = 2}), HasSubstr("segment 2 of a row of 2"));
  EXPECT_THAT(refusal({.per_row = 2}), HasSubstr("3 bags do not make rows of 2"));
  EXPECT_THAT(refusal({.offsets = two, .per_row = 2}),
              HasSubstr("rows of 12 floats do not fit a stride of 6"));
  const auto update = [&](std::vector<BagGradients> gradients) {
    return error_of([&] { cache.update(ticket, gradients); });
  };
  const BagGradients deep{{.segment = 0}, out.data(), kDeep}, wide{{.segment = 1}, out.data(), 1};
  EXPECT_THAT(update({deep}), HasSubstr("of each of the 2 segments, in their order"));
  EXPECT_THAT(update({wide, deep}), HasSubstr("of each of the 2 segments, in their order"));
  EXPECT_THAT(update({deep, {{.offsets = late, .segment = 1}, out.data(), 1}}),
              HasSubstr("offsets from 0 to 2"));
  EXPECT_EQ(update({deep, wide}), "no error");
  EXPECT_THAT(update({deep, wide}), HasSubstr("was updated already"));
}

}  // namespace
}  // namespace mstrain::embedding_cache
