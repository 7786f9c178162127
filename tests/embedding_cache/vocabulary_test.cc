// Tables whose ids come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <map>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/embedding_cache/small_table.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

TEST(Vocabulary, RefusedIdsReadAsZerosAndLearnNothing) {
  for (const AdmissionKind kind : {AdmissionKind::kCount, AdmissionKind::kBloom}) {
    Options options = one_table("");
    options.tables[0].admission = {.kind = kind, .count = 3};
    Cache cache = Cache::open(options);
    const std::vector<Id> ids{4, 9, 4};
    for (uint64_t step = 1; step <= 4; ++step) {
      Ticket ticket = cache.prefetch(0, ids, step);
      cache.wait(ticket);
      std::vector<float> out(6, 5.0F);
      cache.gather(ticket, out.data(), 2);
      EXPECT_EQ(out[0] == 0.0F, step < 3) << step;
      EXPECT_EQ(out[0], out[4]);
      cache.update(ticket, std::vector<float>(6, 1.0F));
      cache.release(std::move(ticket));
      EXPECT_EQ(cache.stats().tables[0].rows, step < 3 ? 0U : 2U);
    }
    // Reading counts for nothing.
    const std::vector<Id> fresh{77};
    for (int i = 0; i < 5; ++i) {
      Ticket ticket = cache.prefetch(0, fresh, 9, Use::kRead);
      cache.wait(ticket);
      std::vector<float> out(2, 5.0F);
      cache.gather(ticket, out.data(), 2);
      EXPECT_EQ(out[0], 0.0F);
      cache.release(std::move(ticket));
    }
  }
}

TEST(Vocabulary, RefusedIdsAreNeitherHitsNorMisses) {
  Options options = one_table("");
  options.tables[0].admission = {.kind = AdmissionKind::kCount, .count = 2};
  Cache cache = Cache::open(options);
  learn(cache, 0, std::vector<Id>{1, 1, 2, 3}, 1);
  TableStats stats = cache.stats().tables[0];
  EXPECT_EQ(stats.refused, 3U);
  EXPECT_EQ(stats.ids, 0U);
  EXPECT_EQ(stats.positions, 0U);
  EXPECT_EQ(stats.id_hits + stats.position_hits, 0U);
  learn(cache, 0, std::vector<Id>{1, 1, 2, 9, 9}, 2);  // 1 and 2 get rows
  learn(cache, 0, std::vector<Id>{1, 1, 5}, 3);        // 1 is there
  stats = cache.stats().tables[0];
  EXPECT_EQ(stats.refused, 5U);
  EXPECT_EQ(stats.ids, 3U);
  EXPECT_EQ(stats.id_hits, 1U);
  EXPECT_EQ(stats.positions, 5U);
  EXPECT_EQ(stats.position_hits, 2U);
}

// Ids of a step, of which few come often.
std::vector<Id> skewed_ids(Rng& rng) {
  std::vector<Id> ids;
  for (int i = 0; i < 12; ++i) {
    const double at = rng.uniform();
    ids.push_back(static_cast<Id>(at * at * 400));
  }
  return ids;
}

constexpr EvictionOptions kRules[] = {
    {.ttl_steps = 12, .min_keep_rows = 10},
    {.max_rows = 60},
    {.max_rows = 60, .score = Score::kLfu},
    {.ttl_steps = 20, .min_keep_rows = 10, .max_rows = 70, .score = Score::kLfu}};

// One cache looks for rows to forget while it goes on learning, one when it is asked to forget them.
TEST(Vocabulary, RowsAreLookedForWhileTrainingGoesOn) {
  constexpr uint64_t kEvery = 8;
  const auto check_rule = [](StoreKind store, const EvictionOptions& rule, uint64_t early) {
    const TempDirectory directory;
    const auto options = [&](const char* name) {
      Options out = one_table(join_path(directory.path(), name), store);
      out.tables[0].host_rows = 40;
      out.tables[0].eviction = rule;
      out.store.write_back_rows = 8;
      return out;
    };
    Cache ahead = Cache::open(options("ahead"));
    Cache plain = Cache::open(options("plain"));
    Rng rng(early);
    uint64_t forgotten = 0;
    for (uint64_t step = 1; step <= 120; ++step) {
      const std::vector<Id> ids = skewed_ids(rng);
      learn(ahead, 0, ids, step);
      learn(plain, 0, ids, step);
      if (step % kEvery == 0) {
        const uint64_t here = plain.evict(step);
        EXPECT_EQ(ahead.evict(step), here) << "step " << step;
        forgotten += here;
        ASSERT_EQ(ahead.digest(), plain.digest()) << "step " << step;
      }
      if (step % 30 == 0) {
        ahead.commit_step(step);
      } else if (step % 13 == 0) {
        ahead.start_commit(step);
      }
      const uint64_t next = (step / kEvery + 1) * kEvery;
      if (early > kEvery ? step % kEvery == 0 : next - step == early) {
        ahead.start_evict(early > kEvery ? next + kEvery : next);
      }
    }
    EXPECT_GT(forgotten, 50U);
  };
  for (const StoreKind store : stores()) {
    for (const EvictionOptions& rule : kRules) {
      for (const uint64_t early : {uint64_t{8}, uint64_t{3}, uint64_t{20}}) {  // 20: too early
        SCOPED_TRACE(testing::Message() << "ttl " << rule.ttl_steps << ", at most " << rule.max_rows
                                        << ", early " << early);
        check_rule(store, rule, early);
      }
    }
  }
}

// What a table of steps and counts keeps when it may have `most` rows.
TEST(Vocabulary, ABudgetKeepsTheRowsOfTheHighestScores) {
  for (const Score by : {Score::kLru, Score::kLfu}) {
    Options options = one_table("");
    options.tables[0].eviction = {.max_rows = 50, .score = by};
    Cache cache = Cache::open(options);
    std::map<Id, std::pair<uint64_t, uint64_t>> model;  // score, then what breaks a tie
    Rng rng(5);
    for (uint64_t step = 1; step <= 100; ++step) {
      const std::vector<Id> ids = skewed_ids(rng);
      learn(cache, 0, ids, step);
      for (const Id id : std::set<Id>(ids.begin(), ids.end())) {
        auto& [first, second] = model[id];
        first = by == Score::kLru ? step : first + 1;
        second = by == Score::kLru ? 0 : step;
      }
      if (step % 10 == 0) {
        if (step % 20 == 0) {
          cache.start_evict(step);
        }
        const size_t before = model.size();
        while (model.size() > 50) {
          model.erase(
              std::min_element(model.begin(), model.end(), [](const auto& a, const auto& b) {
                return std::tie(a.second, a.first) < std::tie(b.second, b.first);
              }));
        }
        EXPECT_EQ(cache.evict(step), before - model.size());
        std::vector<Id> kept;
        cache.scan(0, [&](Id id, const std::byte*) { kept.push_back(id); });
        std::vector<Id> expected;
        for (const auto& [id, score] : model) {
          expected.push_back(id);
        }
        ASSERT_EQ(kept, expected) << "step " << step;
      }
    }
  }
}

// Three caches, each with the ids of one remainder.
TEST(Vocabulary, CachesThatShareATableForgetWhatOneWould) {
  constexpr uint64_t kCaches = 3;
  for (const EvictionOptions& rule : kRules) {
    SCOPED_TRACE(testing::Message() << "ttl " << rule.ttl_steps << ", at most " << rule.max_rows);
    Options options = one_table("");
    options.tables[0].eviction = rule;
    Cache alone = Cache::open(options);
    std::vector<Cache> shared;
    for (uint64_t c = 0; c < kCaches; ++c) {
      shared.push_back(Cache::open(options));
    }
    Rng rng(8);
    for (uint64_t step = 1; step <= 96; ++step) {
      const std::vector<Id> ids = skewed_ids(rng);
      learn(alone, 0, ids, step);
      for (uint64_t c = 0; c < kCaches; ++c) {
        std::vector<Id> own;
        std::copy_if(ids.begin(), ids.end(), std::back_inserter(own),
                     [c](Id id) { return id % kCaches == c; });
        learn(shared[c], 0, own, step);
      }
      if (step % 8 != 0 && step % 8 != 5) {
        continue;
      }
      std::atomic<uint64_t> sum = 0;
      uint64_t total = 0;
      std::barrier all(kCaches, [&]() noexcept { total = sum.exchange(0); });
      std::vector<uint64_t> forgotten(kCaches);
      std::vector<std::jthread> threads;
      for (uint64_t c = 0; c < kCaches; ++c) {
        threads.emplace_back([&, c] {
          const SumOver add_up = [&](uint64_t own) {
            sum += own;
            all.arrive_and_wait();
            return total;
          };
          if (step % 8 == 0) {
            forgotten[c] = shared[c].evict(step, add_up);
          } else if (step % 16 == 5) {
            shared[c].start_evict(step + 3, add_up);
          }
        });
      }
      threads.clear();
      if (step % 8 == 0) {
        EXPECT_EQ(forgotten[0] + forgotten[1] + forgotten[2], alone.evict(step));
        std::vector<Id> kept, expected;
        for (Cache& cache : shared) {
          cache.scan(0, [&](Id id, const std::byte*) { kept.push_back(id); });
        }
        std::sort(kept.begin(), kept.end());
        alone.scan(0, [&](Id id, const std::byte*) { expected.push_back(id); });
        ASSERT_EQ(kept, expected) << "step " << step;
      }
    }
  }
}

TEST(Vocabulary, ABudgetBelowTheFloorIsRefused) {
  EXPECT_THAT(
      [] {
        parse_options(
            "tables: [{name: t, host_rows: 9, segments: [{width: 1}], "
            "eviction: {min_keep_rows: 10, max_rows: 5}}]",
            "f.yaml");
      },
      testing::ThrowsMessage<ConfigError>(testing::HasSubstr("eviction.max_rows is 5")));
}

TEST(Vocabulary, ALookForRowsThatNobodyWaitsForEndsWithItsCache) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    Options options = one_table(directory.path(), store);
    options.tables[0].eviction.ttl_steps = 3;
    Cache cache = Cache::open(options);
    for (uint64_t step = 1; step <= 20; ++step) {
      learn(cache, 0, std::vector<Id>{step, step + 100}, step);
      cache.start_evict(step + 1);
    }
    EXPECT_EQ(cache.evict(30), 40U);
    cache.start_evict(31);
  }
}

TEST(Vocabulary, RowsExpireOldestFirstDownToTheFloor) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    Options options = one_table(directory.path(), store);
    options.tables[0].host_rows = 4;  // most rows are in the store
    options.tables[0].eviction = {.ttl_steps = 5, .min_keep_rows = 3};
    Cache cache = Cache::open(options);
    for (uint64_t step = 1; step <= 10; ++step) {
      const std::vector<Id> ids{step * 10, step * 10 + 1};
      learn(cache, 0, ids, step);
    }
    EXPECT_EQ(cache.stats().tables[0].rows, 20U);
    EXPECT_EQ(cache.evict(10), 10U);  // steps 1 to 5
    std::vector<Id> left;
    cache.scan(0, [&](Id id, const std::byte*) { left.push_back(id); });
    EXPECT_EQ(left, (std::vector<Id>{60, 61, 70, 71, 80, 81, 90, 91, 100, 101}));
    EXPECT_EQ(cache.evict(100), 7U);  // all are old, three stay: the youngest
    left.clear();
    cache.scan(0, [&](Id id, const std::byte*) { left.push_back(id); });
    EXPECT_EQ(left, (std::vector<Id>{91, 100, 101}));
    EXPECT_EQ(cache.stats().tables[0].tombstones, 17U);
    // A row that comes back starts from its first value.
    learn(cache, 0, std::vector<Id>{10}, 101);
    Ticket ticket = cache.prefetch(0, std::vector<Id>{10, 20}, 102);
    cache.wait(ticket);
    std::vector<float> out(4);
    cache.gather(ticket, out.data(), 2);
    std::vector<std::byte> first(cache.layout(0).record_bytes());
    cache.layout(0).initialise(table_seed(options.seed, "t"), 20, first.data());
    EXPECT_EQ(out[2], weights_of(first.data())[0]);
    cache.layout(0).initialise(table_seed(options.seed, "t"), 10, first.data());
    EXPECT_EQ(out[0], weights_of(first.data())[0] - 0.01F);
    cache.release(std::move(ticket));
  }
}

}  // namespace
}  // namespace mstrain::embedding_cache
