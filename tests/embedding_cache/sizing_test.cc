// What is said about sizes before training agrees with what happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/plan.h"
#include "embedding_cache/replay.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kSizingSeed = 42;

// Ids by Zipf's law through the inverse of its sums.
std::vector<Id> zipf_log(uint64_t rows, double alpha, size_t count, uint64_t seed) {
  std::vector<double> sums(rows);
  double sum = 0;
  for (uint64_t k = 0; k < rows; ++k) {
    sums[k] = sum += std::pow(static_cast<double>(k + 1), -alpha);
  }
  Rng rng(seed);
  std::vector<Id> ids(count);
  for (Id& id : ids) {
    id = static_cast<Id>(std::lower_bound(sums.begin(), sums.end(), rng.uniform() * sum) -
                         sums.begin());
  }
  return ids;
}

TEST(Sizing, ZipfSumsAgreeWithAddingThemUp) {
  for (const double alpha : {0.9, 1.05, 1.3}) {
    constexpr uint64_t kRows = 300000;
    double total = 0;
    double head = 0;
    for (uint64_t k = 1; k <= kRows; ++k) {
      const double weight = std::pow(static_cast<double>(k), -alpha);
      total += weight;
      head += k <= 30000 ? weight : 0;
    }
    double distinct = 0;
    for (uint64_t k = 1; k <= kRows; ++k) {
      distinct += 1 - std::pow(1 - std::pow(static_cast<double>(k), -alpha) / total, 50000);
    }
    EXPECT_NEAR(zipf_share(kRows, alpha, 30000), head / total, 1e-5);
    EXPECT_NEAR(zipf_distinct(kRows, alpha, 50000) / distinct, 1, 1e-4);
  }
  // Published figures for 5.86 M rows at 1.05.
  EXPECT_NEAR(zipf_share(5'860'000, 1.05, 586'000), 0.902, 0.0006);
  EXPECT_NEAR(zipf_distinct(5'860'000, 1.05, 416'000), 118'100, 100);
  EXPECT_NEAR(zipf_distinct(~uint64_t{0}, 1.05, 10), 10, 1);  // as many rows as there are ids
}

TEST(Sizing, PlanForeseesBytesHitsAndMisses) {
  constexpr uint64_t kRows = 40000;
  constexpr uint64_t kDraws = 4000;
  Options options;
  options.store.kind = StoreKind::kMemory;
  options.tables = {{.name = "t", .host_rows = 8000, .segments = {{.width = 4}}}};
  const Plan foreseen = plan(
      options, {{.rows = kRows, .alpha = 1.05, .draws_per_batch = kDraws, .compute_seconds = 1}});
  const TablePlan& p = foreseen.tables[0];
  EXPECT_EQ(p.record_bytes, 24U);
  EXPECT_EQ(p.host_bytes, 8000U * 24);
  EXPECT_GT(foreseen.step_seconds_without_prefetch, foreseen.step_seconds);
  EXPECT_NE(print_plan(foreseen).find("reads are hidden"), std::string::npos);

  EXPECT_EQ(print_plan(foreseen).find("raise host_rows"), std::string::npos);
  Options tiny = options;
  tiny.tables[0].host_rows = 500;
  EXPECT_NE(
      print_plan(plan(tiny, {{.rows = kRows, .draws_per_batch = kDraws}})).find("raise host_rows"),
      std::string::npos);

  Cache cache = Cache::open(options);
  const std::vector<Id> log = zipf_log(kRows, 1.05, kDraws * 60, kSizingSeed);
  Stats before;
  for (uint64_t step = 1; step <= 60; ++step) {
    Ticket ticket = cache.prefetch(0, std::span(log).subspan((step - 1) * kDraws, kDraws), step);
    cache.wait(ticket);
    cache.release(std::move(ticket));
    if (step == 30) {
      before = cache.stats();
    }
  }
  const TableStats after = cache.stats().tables[0];
  const double lookups = static_cast<double>(after.positions - before.tables[0].positions);
  const double hits = static_cast<double>(after.position_hits - before.tables[0].position_hits);
  const double distinct = static_cast<double>(after.ids - before.tables[0].ids) / 30;
  EXPECT_NEAR(distinct / p.distinct_per_batch, 1, 0.02);
  // The plan assumes the hottest rows in memory; least recently used is a few points worse and never better.
  EXPECT_LE(hits / lookups, p.hits_per_lookup + 0.005);
  EXPECT_GE(hits / lookups, p.hits_per_lookup - 0.06);
  EXPECT_LE(after.overhead_bytes, after.host_capacity * 16);
}

TEST(Sizing, LookAheadHitsAtLeastAsOftenAsLru) {
  const std::vector<Id> log = zipf_log(60000, 1.05, 60 * 3000, kSizingSeed);
  for (const uint64_t rows : {2000, 4000, 8000, 16000, 60000}) {
    const ReplayOptions options{
        .host_rows = rows, .batch = 3000, .look_ahead = 6, .skip_batches = 10};
    const ReplayResult lru = replay(log, Policy::kLru, options);
    const ReplayResult ahead = replay(log, Policy::kLookAhead, options);
    EXPECT_EQ(lru.lookups, 50U * 3000);
    EXPECT_GE(ahead.hits_per_lookup(), lru.hits_per_lookup()) << rows;
  }
  EXPECT_THROW(replay(log, Policy::kLru, {.host_rows = 100, .batch = 3000}), Error);
}

TEST(Sizing, BatchesOfTheirOwnLengthsReplayLikeALogOfThem) {
  const std::vector<Id> log = zipf_log(5000, 1.05, 20 * 300, kSizingSeed);
  std::vector<std::span<const Id>> batches;
  for (size_t b = 0; b < 20; ++b) {
    batches.push_back(std::span(log).subspan(b * 300, 300));
  }
  const ReplayOptions options{.host_rows = 400, .batch = 300, .look_ahead = 2, .skip_batches = 5};
  const ReplayResult of_log = replay(log, Policy::kLookAhead, options);
  const ReplayResult of_batches = replay(batches, Policy::kLookAhead, options);
  EXPECT_EQ(of_batches.id_hits, of_log.id_hits);
  EXPECT_EQ(of_batches.ids, of_log.ids);
  EXPECT_LE(of_log.new_ids, of_log.ids - of_log.id_hits);
  // Whatever leaves, an id is new once.
  const ReplayResult all = replay(batches, Policy::kLru, {.host_rows = 400});
  std::vector<Id> distinct = log;
  std::ranges::sort(distinct);
  const auto rest = std::ranges::unique(distinct);
  EXPECT_EQ(all.new_ids, distinct.size() - rest.size());

  batches.insert(batches.begin() + 3, std::span<const Id>());
  EXPECT_EQ(replay(batches, Policy::kLru, {.host_rows = 400}).ids, all.ids);

  Options options_of_cache;
  options_of_cache.tables = {{.name = "t", .host_rows = 400, .segments = {{.width = 4}}}};
  const Plan told = plan(options_of_cache, {{.rows = 5000, .replayed = of_batches}});
  EXPECT_DOUBLE_EQ(told.tables[0].hits_per_lookup, of_batches.hits_per_lookup());
  EXPECT_DOUBLE_EQ(told.tables[0].misses_per_batch,
                   static_cast<double>(of_batches.ids - of_batches.id_hits) / 15);
  EXPECT_DOUBLE_EQ(told.tables[0].read_seconds,
                   (told.tables[0].misses_per_batch - told.tables[0].new_per_batch) / 60'000);
}

// The fewest misses of the batches that count, by trying every choice of who leaves.
uint64_t fewest_misses(std::span<const Id> log, const ReplayOptions& options) {
  std::map<uint32_t, uint64_t> states{
      {0, 0}};  // sets of ids in memory, and the fewest misses on the way there
  for (uint64_t b = 0; b * options.batch < log.size(); ++b) {
    const auto ids = log.subspan(b * options.batch,
                                 std::min<size_t>(options.batch, log.size() - b * options.batch));
    uint32_t wanted = 0;
    for (const Id id : ids) {
      wanted |= 1U << id;
    }
    std::map<uint32_t, uint64_t> next;
    for (const auto& [held, misses] : states) {
      const auto missing = static_cast<uint64_t>(std::popcount(wanted & ~held));
      const uint64_t now = misses + (b >= options.skip_batches ? missing : 0);
      for (uint32_t kept = 0; kept < 256; ++kept) {  // any part of what was held, beside the batch
        const uint32_t after = (kept & held) | wanted;
        if (static_cast<uint64_t>(std::popcount(after)) <= options.host_rows) {
          const auto [it, fresh] = next.try_emplace(after, now);
          it->second = std::min(it->second, now);
        }
      }
    }
    states = std::move(next);
  }
  uint64_t best = ~uint64_t{0};
  for (const auto& [held, misses] : states) {
    best = std::min(best, misses);
  }
  return best;
}

TEST(Sizing, OptimumIsTheFewestMissesThatAnyChoiceAllows) {
  Rng rng(kSizingSeed);
  for (int round = 0; round < 150; ++round) {
    std::vector<Id> log(10 + rng.below(30));
    for (Id& id : log) {
      id = rng.below(8);
    }
    const ReplayOptions options{.host_rows = 3 + rng.below(3),
                                .batch = 1 + rng.below(3),
                                .look_ahead = static_cast<uint32_t>(rng.below(4)),
                                .skip_batches = rng.below(3) * 2};
    const ReplayResult optimum = replay_optimum(log, options);
    ASSERT_EQ(optimum.ids - optimum.id_hits, fewest_misses(log, options))
        << "round " << round << " of seed " << kSizingSeed;
    for (const Policy policy : {Policy::kLru, Policy::kLfu, Policy::kLookAhead}) {
      ASSERT_LE(replay(log, policy, options).id_hits, optimum.id_hits);
    }
  }
}

// Look-ahead knows six batches; who knows all hits more often, and look-ahead gets there with its window.
TEST(Sizing, LookAheadComesNearTheOptimumAsItsWindowGrows) {
  const std::vector<Id> log = zipf_log(60000, 1.05, 60 * 3000, kSizingSeed);
  double before = 0;
  for (const uint32_t window : {0U, 3U, 12U, 60U}) {
    const ReplayOptions options{
        .host_rows = 8000, .batch = 3000, .look_ahead = window, .skip_batches = 10};
    const double optimum = replay_optimum(log, options).hits_per_id();
    const double ahead = replay(log, Policy::kLookAhead, options).hits_per_id();
    EXPECT_LE(ahead, optimum) << window;
    EXPECT_GT(ahead, before) << window;
    before = ahead;
    if (window == 60) {
      EXPECT_GT(ahead, optimum - 0.005) << "the window is the log";
    }
  }
}

// Of RocksDB's memory too: an index entry a block and filter bits a row.
TEST(Sizing, PlanForeseesTheStoresMemory) {
  for (const uint32_t width : {4U, 60U}) {
    constexpr uint64_t kRows = 120'000;
    const TempDirectory directory;
    for (const StoreKind kind : {StoreKind::kMemory, StoreKind::kRocksdb}) {
      if (kind == StoreKind::kRocksdb && !has_rocksdb()) {
        continue;
      }
      Options options;
      options.directory = directory / (kind == StoreKind::kMemory ? "memory" : "rocksdb");
      options.store.kind = kind;
      options.tables = {{.name = "t", .host_rows = 10, .segments = {{.width = width}}}};
      Cache cache = Cache::open(options);
      const uint32_t bytes = cache.layout(0).record_bytes();
      std::vector<Id> ids;
      std::vector<std::byte> records(kRows * bytes);
      for (Id id = 0; id < kRows; ++id) {
        ids.push_back(id * 0x1234567891U);
        store_header(records.data() + id * bytes, {.step = 1, .updates = 1});
      }
      cache.load(0, ids, records);
      const auto measured = static_cast<double>(cache.stats().store.memory_bytes);
      const Plan foreseen = plan(options, {{.rows = kRows}});
      const auto said = static_cast<double>(foreseen.tables[0].store_memory_bytes);
      EXPECT_NEAR(said / measured, 1, 0.3)
          << "width " << width << ": " << said << " foreseen, " << measured << " measured";
      EXPECT_GE(foreseen.memory_bytes, foreseen.tables[0].store_memory_bytes +
                                           foreseen.tables[0].host_bytes + foreseen.buffer_bytes);
    }
  }
}

// What waits for the store is bounded by the rows, where they all stay.
TEST(Sizing, PlansWaitForNoMoreRowsThanThereAre) {
  Options options;
  options.directory = "none";
  options.tables = {{.name = "t", .host_rows = 1000, .segments = {{.width = 4}}}};
  const auto waiting = [&](const Workload& load) { return plan(options, {load}).buffer_bytes; };
  EXPECT_LT(waiting({.rows = 1000}), uint64_t{1} << 20);
  EXPECT_GE(waiting({.rows = 1001}), uint64_t{256} << 20);
  EXPECT_GE(waiting({.rows = 1000, .are_all = false}), uint64_t{256} << 20);
}

// Batches of one id, so that no two rows are equally old.
TEST(Sizing, ReplayOfLruEqualsAPlainList) {
  const std::vector<Id> log = zipf_log(3000, 0.9, 8000, kSizingSeed);
  std::vector<Id> list;  // most recently used first
  uint64_t hits = 0;
  for (const Id id : log) {
    const auto at = std::find(list.begin(), list.end(), id);
    if (at != list.end()) {
      ++hits;
      list.erase(at);
    } else if (list.size() == 400) {
      list.pop_back();
    }
    list.insert(list.begin(), id);
  }
  EXPECT_EQ(replay(log, Policy::kLru, {.host_rows = 400, .batch = 1, .look_ahead = 0}).id_hits,
            hits);
}

TEST(Sizing, IdLogsAreBytesOrLines) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory.path());
  const auto read = [&](std::string_view content) {
    const auto file = real_files().open(directory / "log", WriteMode::kTruncate);
    file->append(content);
    file->close();
    return read_id_log(real_files(), directory / "log");
  };
  EXPECT_EQ(read("12\n7\r\n18446744073709551615"), (std::vector<Id>{12, 7, ~Id{0}}));
  EXPECT_EQ(read(std::string("\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2", 16)),
            (std::vector<Id>{1, Id{2} << 56}));
  EXPECT_THROW(read("12\n18446744073709551616\n"), IoError);
  EXPECT_THROW(read("12\nx\n"), IoError);
  EXPECT_THROW(read("1\n2\n?1\n44444\n12\n"), IoError);  // as long as two ids of 8 bytes
  EXPECT_EQ(read(" 12\t\n  \n-1 \n-9223372036854775808"),
            (std::vector<Id>{12, ~Id{0}, Id{1} << 63}));
  for (const char* bad : {"1 2\n", "-\n", "+1\n", "--1\n", "- 1\n", "-9223372036854775809\n"}) {
    EXPECT_THROW(read(bad), IoError) << bad;
  }
  EXPECT_TRUE(read("").empty());
}

TEST(Sizing, ReplayPageIsOnePage) {
  const std::vector<Id> log = zipf_log(1000, 1.0, 4000, kSizingSeed);
  std::vector<ReplayResult> results;
  for (const uint64_t rows : {200, 500}) {
    results.push_back(replay(log, Policy::kLru, {.host_rows = rows, .batch = 100}));
  }
  const std::string page =
      replay_page(results, {.record_bytes = 100, .compute_seconds = 0.5}, "a<b");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("a&lt;b"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "loads nothing";
}

}  // namespace
}  // namespace mstrain::embedding_cache
