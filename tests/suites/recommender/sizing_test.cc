#include "suites/recommender/run/sizing.h"

#include <gmock/gmock.h>

#include "core/base/error.h"
#include "tests/suites/recommender/world.h"

namespace mstrain::recommender {
namespace {

constexpr int64_t kSizedSteps = 40;
constexpr int64_t kSizedBatch = 8;

SizedRun sized(const World& world, const Placement& placement, int64_t depth) {
  return {.samples = *world.samples,
          .tables = *world.tables,
          .placement = placement,
          .options = world.rows->options(),
          .order = {},
          .seed = 11,
          .batch = kSizedBatch,
          .steps = kSizedSteps,
          .look_ahead = depth};
}

TEST(SizesOfRows, AreWhatTheCacheThenFinds) {
  for (const int64_t host_rows : {60, 80, 1000}) {
    World world(0, host_rows);
    const RowsSizing sizing =
        size_rows(sized(world, Placement(*world.tables, EmbeddingWay::kAuto, 1), 0));
    EXPECT_EQ(sizing.batches, kSizedSteps);
    EXPECT_EQ(sizing.counted, kSizedSteps / 2);
    EXPECT_TRUE(sizing.is_whole);
    const auto batches = training_batches(world.source(), {}, 11, BatchPart(kSizedBatch), 0);
    embedding_cache::Stats before;
    for (int64_t step = 1; step <= kSizedSteps; ++step) {
      batches->learn(pull(batches->next(), *world.tables, step));
      if (step == kSizedSteps / 2) {
        before = world.rows->cache().stats();
      }
    }
    const embedding_cache::Stats after = world.rows->cache().stats();
    ASSERT_EQ(after.tables.size(), 3U);
    for (size_t t = 0; t < after.tables.size(); ++t) {
      const embedding_cache::TablePlan& table = sizing.ranks[0].plan.tables[t];
      const auto seen = [&](uint64_t embedding_cache::TableStats::*count) {
        return static_cast<double>(after.tables[t].*count - before.tables[t].*count);
      };
      using Table = embedding_cache::TableStats;
      EXPECT_EQ(table.rows, after.tables[t].rows);
      EXPECT_DOUBLE_EQ(table.distinct_per_batch, seen(&Table::ids) / sizing.counted);
      EXPECT_NEAR(table.hits_per_id, seen(&Table::id_hits) / seen(&Table::ids), 0.01) << host_rows;
      EXPECT_NEAR(table.hits_per_lookup, seen(&Table::position_hits) / seen(&Table::positions),
                  0.01)
          << host_rows;
    }
    EXPECT_EQ(sizing.ranks[0].plan.tables[1].hits_per_id < 0.99, host_rows < 1000);
  }
}

TEST(SizesOfRows, OfRanksAddUpToThoseOfOne) {
  World world(0, 1000);
  const RowsSizing one =
      size_rows(sized(world, Placement(*world.tables, EmbeddingWay::kAuto, 1), 0));
  for (const EmbeddingWay way : {EmbeddingWay::kRowWise, EmbeddingWay::kTableWise}) {
    const Placement placement(*world.tables, way, 3);
    const SizedRun run = sized(world, placement, 0);
    const RowsSizing three = size_rows(run);
    ASSERT_EQ(three.ranks.size(), 3U);
    double lookups = 0, distinct = 0;
    for (const RankSizing& rank : three.ranks) {
      lookups += rank.lookups;
      distinct += rank.distinct;
      EXPECT_LT(rank.lookups, one.ranks[0].lookups);
    }
    EXPECT_NEAR(lookups, one.ranks[0].lookups, 1e-9);
    EXPECT_NEAR(distinct, one.ranks[0].distinct, 1e-9);
    const std::string text = describe(three, run, RunPlan{.ranks = 3});
    EXPECT_NE(text.find("3 ranks share them"), std::string::npos) << text;
    EXPECT_NE(text.find("is the bottleneck"), std::string::npos) << text;
  }
}

TEST(SizesOfRows, AreBoundsWhereBatchesDoNotHoldAllIds) {
  World world(0, 1000);
  const Placement alone(*world.tables, EmbeddingWay::kAuto, 1);
  SizedRun run = sized(world, alone, 0);
  EXPECT_THAT(describe(size_rows(run), run, RunPlan()), testing::HasSubstr("rows: all, since"));
  run.others = 7;  // which the run may have no sample of
  EXPECT_THAT(describe(size_rows(run), run, RunPlan()), testing::HasSubstr("rows: at most, since"));
  RowsSizing part = size_rows(run);
  part.is_whole = false;
  EXPECT_THAT(describe(part, run, RunPlan()), testing::HasSubstr("rows: at most, by the number"));
}

TEST(SizesOfRows, OfHashesWithAWideBoundFitInMemory) {
  SampleSchema schema;
  schema.fields = {{.name = "town", .rows = 5'000'000'000}, {.name = "day"}};
  const Tables tables(schema, {});
  const Placement alone(tables, EmbeddingWay::kAuto, 1);
  const auto options = cache_options(tables, alone, EmbeddingConfig(), CacheConfig(), 1, 1,
                                     int64_t{1} << 34, /*samples=*/3000);
  EXPECT_EQ(options.tables[0].host_rows, 6000U);
  const auto plan = plan_rows(tables, alone, options, 100, most_rows(tables, alone, 3000, 0));
  EXPECT_LT(plan.memory_bytes,
            uint64_t{8} << 20);  // 6,000 rows of some 250 bytes, at most five times
}

TEST(SizesOfRows, RefuseBatchesThatDoNotFit) {
  using testing::HasSubstr;
  World world(0, 5);
  const Placement alone(*world.tables, EmbeddingWay::kAuto, 1);
  EXPECT_THAT([&] { size_rows(sized(world, alone, 0)); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("and does not fit into 5 rows")));
  EXPECT_THAT([&] { check_first_batch(sized(world, alone, 0)); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("host_rows: table")));
  World room(0, 1000);
  SizedRun run = sized(room, alone, 0);
  check_first_batch(run);
  run.device_rows.assign(run.options.tables.size(), 1000);
  check_first_batch(run);
  run.device_rows.back() = 5;
  EXPECT_THAT([&] { check_first_batch(run); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("device_rows: table")));
}

}  // namespace
}  // namespace mstrain::recommender
