// Neither the sizes of the tiers nor depth, threads, store, policy or look-ahead change a bit of the result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "embedding_cache/rehearsal.h"
#include "embedding_cache/stream.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

TEST(Exactness, EqualityMatrix) {
  std::map<std::string, std::string> digests;
  for (const StoreKind store : stores()) {
    for (const double share : {0.02, 0.1, 1.0}) {
      for (const uint32_t depth : {0U, 1U, 3U}) {
        for (const int threads : {1, 2}) {
          const TempDirectory directory;
          const Rehearsal rehearsal{.steps = 30,
                                    .commit_behind = threads == 2,
                                    .evict_every = 10,
                                    .depth = depth,
                                    .vocabulary = 4000,
                                    .positions = 60};
          Options options = rehearsal.cache_options(directory.path(), share, store);
          options.threads = threads;
          Cache cache = Cache::open(options);
          rehearsal.run(cache);
          const std::string name = fmt::format("store {} share {} depth {} threads {}",
                                               static_cast<int>(store), share, depth, threads);
          digests[name] = cache.digest();
          if (share < 1) {
            const Stats stats = cache.stats();
            EXPECT_GT(stats.tables[0].evicted_dirty, 0U) << name << ": nothing was evicted";
            EXPECT_GT(stats.tables[0].tombstones + stats.tables[1].tombstones, 0U);
            EXPECT_GT(stats.tables[1].refused, 0U);
          }
        }
      }
    }
  }
  for (const auto& [name, digest] : digests) {
    EXPECT_EQ(digest, digests.begin()->second)
        << name << " differs from " << digests.begin()->first;
  }
  EXPECT_EQ(digests.size(), 18 * stores().size());
}

// The loop that the library offers learns as one written out does, whatever its depth, and however often it is stopped.
TEST(Exactness, StreamEqualsTheLoopWrittenOut) {
  constexpr uint64_t kSteps = 47;
  const auto ids_of = [](uint64_t step) {
    std::vector<Id> ids(30);
    Rng rng(5, step);
    std::generate(ids.begin(), ids.end(), [&] { return rng.below(200); });
    return ids;
  };
  const auto options_in = [](const std::string& directory) {
    Options options;
    options.directory = directory;
    options.store.kind = StoreKind::kMemory;
    options.tables = {{.name = "t", .host_rows = 150, .segments = {{.width = 3}}}};
    options.tables[0].segments[0].optimizer.kind = OptimizerKind::kAdagrad;
    return options;
  };
  const TempDirectory plain;
  Cache loop = Cache::open(options_in(plain.path()));
  for (uint64_t step = 1; step <= kSteps; ++step) {
    Ticket ticket = loop.prefetch(0, ids_of(step), step);
    loop.wait(ticket);
    std::vector<float> values(90);
    loop.gather(ticket, values.data(), 3);
    loop.update(ticket, values, GradientsOf::kPositions, 0.5F);
    loop.release(std::move(ticket));
  }
  for (const uint32_t depth : {0U, 1U, 3U}) {
    const TempDirectory directory;
    std::vector<uint64_t> commits;
    for (const uint64_t until : {20U, 23U, 40U, 47U}) {
      Cache cache = Cache::open(options_in(directory.path()));
      std::vector<Id> ids;
      Stream stream(cache, 0, {.steps = until, .commit_every = 10, .depth = depth},
                    [&](uint64_t step) -> std::span<const Id> { return ids = ids_of(step); });
      while (stream.next()) {
        EXPECT_THROW(stream.next(), Error) << "the batch has not learned";
        if (stream.learn(stream.values(), 0.5F)) {
          commits.push_back(stream.step());
          cache.commit_step(stream.step());
        }
        EXPECT_THROW(stream.learn({}), Error) << "the batch has learned";
      }
      if (until == kSteps) {
        EXPECT_EQ(cache.digest(), loop.digest()) << "depth " << depth;
      }
    }
    EXPECT_EQ(commits, (std::vector<uint64_t>{10, 20, 23, 30, 40, 47}));
  }
}

Options small_table_in(const std::string& directory) {
  Options options;
  options.directory = directory;
  options.store.kind = StoreKind::kMemory;
  options.tables = {{.name = "t", .host_rows = 40, .segments = {{.width = 2}}}};
  return options;
}

std::vector<Id> few_ids_of(uint64_t step) { return {step % 7, step % 5, 3 * step}; }

// Batches from `first` on, of which `ahead` are fetched before the first learns, and given back by `give_back`.
void learn_one_of(Cache& cache, uint64_t first, uint64_t ahead,
                  const std::function<void(Ticket&)>& give_back) {
  std::vector<Ticket> tickets;
  for (uint64_t step = first; step <= first + ahead; ++step) {
    tickets.push_back(cache.prefetch(0, few_ids_of(step), step));
  }
  cache.wait(tickets[0]);
  std::vector<float> values(6);
  cache.gather(tickets[0], values.data(), 2);
  cache.update(tickets[0], values);
  cache.release(std::move(tickets[0]));
  for (size_t i = 1; i < tickets.size(); ++i) {
    give_back(tickets[i]);
  }
}

// A trainer may stop before batches that it fetched ahead, commit, and go on with them at once or when it is started again.
TEST(Exactness, BatchesThatAreGivenBackLeaveNothingBehind) {
  const TempDirectory plain;
  Cache straight = Cache::open(small_table_in(plain.path()));
  for (uint64_t step = 1; step <= 3; ++step) {
    learn_one_of(straight, step, 0, {});
  }
  const TempDirectory directory;
  {
    Cache cache = Cache::open(small_table_in(directory.path()));
    for (uint64_t step = 1; step <= 4; ++step) {
      cache.announce(0, few_ids_of(step));
    }
    learn_one_of(cache, 1, 2, [&](Ticket& ticket) { cache.release(std::move(ticket)); });
    EXPECT_EQ(cache.commit_step(1), 1U);
    EXPECT_THROW(cache.prefetch(0, few_ids_of(1), 1), Error) << "it is in the commit";
    learn_one_of(cache, 2, 2, [&](Ticket& ticket) { ticket = Ticket(); });
    EXPECT_THROW(cache.commit_step(2), Error) << "tells once what was dropped";
    EXPECT_THROW(cache.commit_step(1), Error) << "step 2 has learned";
    EXPECT_EQ(cache.commit_step(2), 2U);
  }
  Cache cache = Cache::open(small_table_in(directory.path()));
  EXPECT_EQ(cache.last_step(), 2U);
  std::vector<Id> ids;
  {
    Stream stream(cache, 0, {.steps = 100, .depth = 2},
                  [&](uint64_t step) -> std::span<const Id> { return ids = few_ids_of(step); });
    EXPECT_TRUE(stream.next());
    stream.stop();
    EXPECT_EQ(stream.step(), 2U);
    EXPECT_TRUE(stream.next());
    stream.learn(stream.values());
    EXPECT_TRUE(stream.next());  // ends here
  }
  EXPECT_EQ(cache.commit_step(3), 3U);
  EXPECT_EQ(cache.digest(), straight.digest());
}

// Rows without a finite gradient do not learn, the others of the batch have, once.
TEST(Exactness, AStreamGoesOnBehindABatchOfWhichARowDidNotLearn) {
  Options options = small_table_in("");
  options.tables[0].segments = {{.width = 1,
                                 .optimizer = {.kind = OptimizerKind::kSgd, .lr = 1},
                                 .init = {.kind = InitKind::kZero}}};
  const std::vector<Id> ids{1, 2};
  for (const bool stops : {false, true}) {
    const TempDirectory directory;
    options.directory = directory.path();
    Cache cache = Cache::open(options);
    Stream stream(cache, 0, {.steps = 4}, [&](uint64_t) { return std::span<const Id>(ids); });
    ASSERT_TRUE(stream.next());
    EXPECT_THROW(stream.learn(std::vector<float>{NAN, 1}), Error);
    if (stops) {
      stream.stop();
    }
    EXPECT_EQ(stream.step(), 1U);
    ASSERT_TRUE(stream.next());
    EXPECT_EQ(stream.step(), 2U);
    EXPECT_EQ(stream.values()[0], 0);
    EXPECT_EQ(stream.values()[1], -1);
    EXPECT_THROW(stream.learn(std::vector<float>{1}), Error) << "two rows are needed";
    stream.learn(std::vector<float>{1, 1});
    stream.stop();
    EXPECT_EQ(cache.commit_step(2), 1U);
  }
}

// One stream a table, side by side, as a model with several tables needs them.
TEST(Exactness, StreamsOfSeveralTablesShareACache) {
  std::string first;
  for (const uint32_t depth : {0U, 2U}) {
    const TempDirectory directory;
    Options options;
    options.directory = directory.path();
    options.store.kind = StoreKind::kMemory;
    for (const char* name : {"a", "b", "c"}) {
      options.tables.push_back({.name = name, .host_rows = 100, .segments = {{.width = 2}}});
    }
    Cache cache = Cache::open(options);
    std::vector<Stream> streams;
    std::vector<std::vector<Id>> ids(3);
    for (uint32_t t = 0; t < 3; ++t) {
      streams.emplace_back(cache, t, StreamOptions{.steps = 25, .commit_every = 10, .depth = depth},
                           [&ids, t](uint64_t step) -> std::span<const Id> {
                             return ids[t] = {step % 7, step % 5 + t, step * 3};
                           });
    }
    std::swap(streams[0], streams[2]);
    while (std::all_of(streams.begin(), streams.end(), [](Stream& s) { return s.next(); })) {
      bool commit = false;
      for (Stream& stream : streams) {
        commit = stream.learn(stream.values());
      }
      if (commit) {
        cache.commit_step(streams[0].step());
      }
    }
    EXPECT_EQ(cache.last_commit(), 3U);
    first = first.empty() ? cache.digest() : first;
    EXPECT_EQ(cache.digest(), first);
  }
}

TEST(Exactness, PolicyAndLookAheadChangeNothing) {
  std::string first;
  for (const Policy policy : {Policy::kLru, Policy::kLfu, Policy::kLookAhead}) {
    for (const uint32_t look_ahead : {0U, 2U, 7U}) {
      const TempDirectory directory;
      const Rehearsal rehearsal{.steps = 30, .depth = 2, .look_ahead = look_ahead, .positions = 80};
      Options options = rehearsal.cache_options(directory.path(), 0.1, StoreKind::kMemory);
      for (TableOptions& table : options.tables) {
        table.policy = policy;
      }
      options.check_shadow = true;
      Cache cache = Cache::open(options);
      rehearsal.run(cache);
      const std::string digest = cache.digest();
      first = first.empty() ? digest : first;
      EXPECT_EQ(digest, first) << static_cast<int>(policy) << " " << look_ahead;
    }
  }
}

TEST(Exactness, ResumeEqualsContinue) {
  for (const StoreKind store : stores()) {
    const TempDirectory straight;
    const TempDirectory stopped;
    Rehearsal rehearsal{.steps = 40, .evict_every = 20};
    std::string expected;
    {
      Cache cache = Cache::open(rehearsal.cache_options(straight.path(), 0.1, store));
      rehearsal.run(cache);
      expected = cache.digest();
    }
    const Options options = rehearsal.cache_options(stopped.path(), 0.1, store);
    for (const uint64_t until : {10, 27, 33, 40}) {  // 27 and 33 leave steps without a commit
      Rehearsal part = rehearsal;
      part.steps = until;
      Cache cache = Cache::open(options);
      EXPECT_EQ(cache.last_step(), (until == 10 ? 0 : until == 27 ? 10 : until == 33 ? 20 : 30));
      part.run(cache);
    }
    Cache cache = Cache::open(options);
    EXPECT_EQ(cache.digest(), expected);
  }
}

TEST(Exactness, ResumeOfAnOlderCommitAbandonsTheNewerOnes) {
  const TempDirectory directory;
  const Rehearsal rehearsal{.steps = 40};
  Options options = rehearsal.cache_options(directory.path(), 0.1, stores().back());
  options.keep = 10;
  std::string expected;
  {
    Cache cache = Cache::open(options);
    rehearsal.run(cache);
    EXPECT_EQ(cache.last_commit(), 4U);
    expected = cache.digest();
  }
  {
    Cache cache = Cache::resume(options, 2);
    EXPECT_EQ(cache.last_step(), 20U);
    rehearsal.run(cache);
    EXPECT_EQ(cache.last_commit(), 6U);
    EXPECT_EQ(cache.digest(), expected);
  }
  EXPECT_THROW(Cache::resume(options, 3), IoError);
  Cache cache = Cache::open(options);
  EXPECT_EQ(cache.last_commit(), 6U);
  EXPECT_EQ(cache.digest(), expected);
}

// bounded_staleness: a gather may miss the updates of the last k batches; one more is an error.
TEST(Exactness, StalenessIsBounded) {
  for (const uint32_t bound : {0U, 2U}) {
    Options options;
    options.bounded_staleness = bound;
    options.store.kind = StoreKind::kMemory;
    options.tables = {{.name = "t", .host_rows = 100, .segments = {{.width = 2}}}};
    Cache cache = Cache::open(options);
    const std::vector<Id> ids{1, 2, 3};
    std::vector<float> out(6);
    std::vector<Ticket> tickets;
    for (uint64_t step = 1; step <= bound + 2; ++step) {
      tickets.push_back(cache.prefetch(0, ids, step));
      cache.wait(tickets.back());
    }
    for (uint64_t i = 0; i <= bound; ++i) {
      cache.gather(tickets[i], out.data(), 2);
    }
    EXPECT_THROW(cache.gather(tickets[bound + 1], out.data(), 2), Error);
    cache.update(tickets[0], std::vector<float>(6, 1.0F));
    cache.gather(tickets[bound + 1], out.data(), 2);
    for (Ticket& ticket : tickets) {
      cache.release(std::move(ticket));
    }
  }
}

TEST(Exactness, ShadowCheckNamesARowThatSomebodyChanged) {
  Options options;
  options.check_shadow = true;
  options.tables = {{.name = "t", .host_rows = 100, .segments = {{.width = 2}}}};
  options.store.kind = StoreKind::kMemory;
  Cache cache = Cache::open(options);
  const std::vector<Id> ids{1, 2, 3};
  Ticket ticket = cache.prefetch(0, ids, 1);
  cache.wait(ticket);
  std::vector<const float*> rows;
  cache.rows(ticket, rows);
  const_cast<float*>(rows[1])[1] += 1.0F;
  std::vector<float> out(6);
  try {
    cache.gather(ticket, out.data(), 2);
    FAIL() << "the change was not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("id 2"), std::string::npos) << error.what();
  }
  cache.release(std::move(ticket));
}

}  // namespace
}  // namespace mstrain::embedding_cache
