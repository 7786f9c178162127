// Wrong use is a clear error that leaves everything as it was, never a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <thread>

#include "core/base/error.h"
#include "embedding_cache/commit.h"
#include "embedding_cache/rehearsal.h"
#include "tests/core/base/message_of.h"
#include "tests/embedding_cache/hooked_files.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

using testing::HasSubstr;

Options small_options(const std::string& directory = "") {
  Options options;
  options.directory = directory;
  options.store.kind = StoreKind::kMemory;
  options.wait_seconds = 60;
  options.tables = {{.name = "ads", .host_rows = 10, .segments = {{.width = 2}}},
                    {.name = "users",
                     .host_rows = 10,
                     .segments = {{.width = 3, .optimizer = {.kind = OptimizerKind::kAdagrad}}}}};
  return options;
}

std::vector<Id> ids_from(Id first, size_t count) {
  std::vector<Id> ids(count);
  for (size_t i = 0; i < count; ++i) {
    ids[i] = first + i;
  }
  return ids;
}

TEST(Misuse, AKeyOfTheCallersConfigurationIsNamed) {
  Options options = small_options();
  options.tables[0].host_rows_key = "my.yaml:7: rows";
  Cache cache = Cache::open(options);
  EXPECT_THAT(error_of([&] { cache.prefetch(0, ids_from(0, 11), 1); }),
              HasSubstr("my.yaml:7: rows: table \""));
}

TEST(Misuse, OversubscribedCacheSaysWhoHoldsWhatAndStaysUsable) {
  Cache cache = Cache::open(small_options());
  EXPECT_THAT(error_of([&] { cache.prefetch(0, ids_from(0, 11), 1); }), HasSubstr("does not fit"));
  Ticket first = cache.prefetch(0, ids_from(0, 6), 1);
  EXPECT_THAT(error_of([&] { cache.prefetch(0, ids_from(4, 7), 2); }),
              HasSubstr("of 10 rows in host memory, 6 are held"));
  Ticket second = cache.prefetch(0, ids_from(4, 6), 2);  // 4 new beside 6: fits exactly
  cache.wait(second);
  cache.release(std::move(first));
  cache.release(std::move(second));
  EXPECT_EQ(cache.stats().tables[0].pinned_rows, 0U);
  Ticket third = cache.prefetch(0, ids_from(100, 10), 3);
  cache.wait(third);
  cache.release(std::move(third));
}

TEST(Misuse, TicketsThatWereReleasedMovedOrComeFromElsewhere) {
  Cache cache = Cache::open(small_options());
  Cache other = Cache::open(small_options());
  std::vector<float> values(4, 1.0F);
  Ticket ticket = cache.prefetch(0, ids_from(0, 2), 1);
  EXPECT_THAT(error_of([&] { other.wait(ticket); }), HasSubstr("another cache"));
  EXPECT_THAT(error_of([&] { other.update(ticket, values); }), HasSubstr("another cache"));
  EXPECT_THAT(error_of([&] { other.release(std::move(ticket)); }), HasSubstr("another cache"));
  EXPECT_THAT(error_of([&] { cache.gather(ticket, values.data(), 2); }), HasSubstr("before wait"));
  EXPECT_THAT(error_of([&] { cache.update(ticket, values); }), HasSubstr("before wait"));
  cache.wait(ticket);
  Ticket moved = std::move(ticket);
  EXPECT_THAT(error_of([&] { cache.wait(ticket); }), HasSubstr("holds nothing"));
  cache.update(moved, values);
  EXPECT_THAT(error_of([&] { cache.update(moved, values); }), HasSubstr("updated already"));
  cache.release(std::move(moved));
  EXPECT_THAT(error_of([&] { cache.update(moved, values); }), HasSubstr("holds nothing"));
  EXPECT_THAT(error_of([&] { cache.release(std::move(moved)); }), HasSubstr("holds nothing"));
}

TEST(Misuse, DroppedTicketIsReportedOnceAndHoldsNothing) {
  Cache cache = Cache::open(small_options());
  { const Ticket ticket = cache.prefetch(0, ids_from(0, 10), 4); }
  EXPECT_EQ(cache.stats().tables[0].pinned_rows, 0U);
  EXPECT_THAT(error_of([&] { cache.prefetch(0, ids_from(0, 10), 5); }),
              HasSubstr("\"ads\", step 4, was dropped"));
  Ticket ticket = cache.prefetch(0, ids_from(10, 10), 5);
  cache.wait(ticket);
  cache.release(std::move(ticket));
  { const Ticket reading = cache.prefetch(0, ids_from(0, 10), 5, Use::kRead); }  // nothing is lost
  ticket = cache.prefetch(0, ids_from(10, 10), 6);
  cache.release(std::move(ticket));
}

TEST(Misuse, WrongShapesStepsTypesAndTables) {
  Cache cache = Cache::open(small_options());
  EXPECT_THAT(error_of([&] { cache.table("user"); }), HasSubstr("did you mean users?"));
  EXPECT_THAT(error_of([&] { cache.prefetch(2, ids_from(0, 1), 1); }), HasSubstr("table 2 of 2"));
  EXPECT_THAT(error_of([&] { cache.prefetch(0, ids_from(0, 1), 0); }),
              HasSubstr("steps are from 1"));
  Ticket ticket = cache.prefetch(0, ids_from(0, 2), 7);
  cache.wait(ticket);
  std::vector<float> values(6);
  EXPECT_THAT(error_of([&] { cache.gather(ticket, values.data(), 1); }), HasSubstr("stride"));
  EXPECT_THAT(error_of([&] { cache.gather(ticket, values.data(), 2, {.begin = 3}); }),
              HasSubstr("rows [3, 2) of 2"));
  EXPECT_THAT(error_of([&] { cache.update(ticket, values); }), HasSubstr("expected [2, 2] = 4"));
  values.resize(4);
  EXPECT_THAT(error_of([&] { cache.update(ticket, values, LazyAdam{}); }),
              HasSubstr("another update type"));
  EXPECT_THAT(error_of([&] { cache.update(ticket, values, Sgd{}, Sgd{}); }),
              HasSubstr("was given 2 update types"));
  EXPECT_THAT(error_of([&] { cache.prefetch(0, ids_from(0, 1), 6); }), HasSubstr("never decrease"));
  Ticket reading = cache.prefetch(0, ids_from(0, 2), 7, Use::kRead);
  cache.wait(reading);
  EXPECT_THAT(error_of([&] { cache.update(reading, values); }), HasSubstr("prefetched to read"));
  cache.release(std::move(reading));
  Ticket next = cache.prefetch(0, ids_from(0, 2), 8);
  cache.wait(next);
  EXPECT_THAT(error_of([&] { cache.update(next, values); }), HasSubstr("earlier batches"));
  EXPECT_THAT(error_of([&] { cache.digest(); }), HasSubstr("2 tickets are open"));
  EXPECT_THAT(error_of([&] { cache.evict(8); }), HasSubstr("2 tickets are open"));
  cache.release(std::move(ticket));
  cache.release(std::move(next));
  EXPECT_THAT(error_of([&] { cache.commit_step(8); }), HasSubstr("needs options.directory"));
  EXPECT_THAT(error_of([&] {
                cache.announce(0, ids_from(5, 2));
                cache.prefetch(0, ids_from(6, 2), 9);
              }),
              HasSubstr("not the one that was announced"));
}

TEST(Misuse, GradientsThatAreNotFiniteEnterNoRow) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const GradientsOf of : {GradientsOf::kPositions, GradientsOf::kDistinctIds}) {
    const TempDirectory directory;
    Cache cache = Cache::open(small_options(directory.path()));
    Ticket ticket = cache.prefetch(0, ids_from(5, 4), 1);
    cache.wait(ticket);
    std::vector<float> before(8);
    cache.gather(ticket, before.data(), 2);
    EXPECT_THAT(error_of([&] {
                  cache.update(ticket, std::vector<float>{1, 1, kNan, 1, 1, -kInfinity, 1, 1}, of);
                }),
                HasSubstr("2 of the 4 ids of table \"ads\" are not finite, of id 6 first"));
    std::vector<float> after(8);
    cache.gather(ticket, after.data(), 2);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(after[i], i >= 2 && i < 6 ? before[i] : before[i] - 0.01F) << i;
    }
    EXPECT_THAT(error_of([&] { cache.update(ticket, before, of); }), HasSubstr("updated already"));
    cache.release(std::move(ticket));
    EXPECT_EQ(cache.stats().tables[0].rows, 2U);
    cache.commit_step(1);
    uint64_t rows = 0;
    cache.scan(0, [&](Id, const std::byte* record) { rows += load_header(record).updates; });
    EXPECT_EQ(rows, 2U) << "rows that did not learn are not stored";
    // Sums count: two large ones of one id.
    ticket = cache.prefetch(0, std::vector<Id>{1, 1}, 2);
    cache.wait(ticket);
    EXPECT_THAT(error_of([&] {
                  cache.update(ticket, std::vector<float>{3e38F, 0, 3e38F, 0});
                }),
                HasSubstr("not finite"));
    EXPECT_THAT(error_of([&] { cache.update(ticket, before, GradientsOf::kPositions, kNan); }),
                HasSubstr("lr_scale is nan"));
    cache.release(std::move(ticket));
  }
}

TEST(Misuse, CommitsWantOrder) {
  const TempDirectory directory;
  Cache cache = Cache::open(small_options(directory.path()));
  Ticket ticket = cache.prefetch(1, ids_from(0, 2), 3);
  cache.wait(ticket);
  cache.update(ticket, std::vector<float>(6, 1.0F));
  EXPECT_THAT(error_of([&] { cache.commit_step(3); }), HasSubstr("tickets are open"));
  cache.release(std::move(ticket));
  EXPECT_THAT(error_of([&] { cache.commit_step(2); }), HasSubstr("has learned step 3"));
  EXPECT_EQ(cache.commit_step(3), 1U);
  EXPECT_THAT(error_of([&] { cache.commit(9); }), HasSubstr("no prepared commit 9"));
  EXPECT_THAT(error_of([&] { cache.prefetch(0, ids_from(0, 2), 3); }),
              HasSubstr("the last commit holds step 3"));
  EXPECT_THAT(error_of([&] { cache.export_delta(9, directory / "delta"); }),
              HasSubstr("commit 9, which is not there"));
}

TEST(Misuse, CommitsNameWhatWasCountedAndHasNotLearned) {
  const TempDirectory directory;
  Options options = small_options(directory.path());
  options.tables[0].admission = {.kind = AdmissionKind::kCount, .count = 2};
  Cache cache = Cache::open(options);
  cache.release(cache.prefetch(0, ids_from(0, 2), 2));
  EXPECT_THAT(error_of([&] { cache.commit_step(1); }),
              HasSubstr("has counted the ids of step 2 for admission"));
  cache.commit_step(2);
}

TEST(Misuse, DirectoriesInUseForeignOldOrOfOtherTables) {
  const TempDirectory directory;
  const Options options = small_options(directory.path());
  {
    Cache cache = Cache::open(options);
    EXPECT_THAT(error_of([&] { Cache::open(options); }), HasSubstr("in use"));
    cache.commit_step(1);
  }
  Options changed = options;
  changed.tables[1].segments[0].width = 4;
  EXPECT_THAT(error_of([&] { Cache::open(changed); }),
              HasSubstr("rows of table \"users\" are [adagrad:3"));
  changed = options;
  changed.tables[0].name = "adds";
  EXPECT_THAT(error_of([&] { Cache::open(changed); }), HasSubstr("table 0 is \"ads\""));
  changed = options;
  changed.seed = 2;
  EXPECT_THAT(error_of([&] { Cache::open(changed); }), HasSubstr("made with seed 1"));
  changed = options;
  changed.tables.pop_back();
  EXPECT_THAT(error_of([&] { Cache::open(changed); }), HasSubstr("holds 2 tables"));
  EXPECT_THAT(error_of([&] { Cache::resume(options, 5); }), HasSubstr("holds no commit 5"));
  if (has_rocksdb()) {
    changed = options;
    changed.store.kind = StoreKind::kRocksdb;
    EXPECT_THAT(error_of([&] { Cache::open(changed); }), HasSubstr("in a memory store"));
  }
  std::ofstream(directory / "EMBEDDING_CACHE") << "mstrain-embedding-cache 7\n";
  EXPECT_THAT(error_of([&] { Cache::open(options); }), HasSubstr("form 7"));
  const TempDirectory foreign;
  std::filesystem::create_directories(foreign.path());
  std::ofstream(foreign / "thesis.txt") << "precious";
  EXPECT_THAT(error_of([&] { Cache::open(small_options(foreign.path())); }),
              HasSubstr("it holds thesis.txt"));
  EXPECT_FALSE(std::filesystem::exists(foreign / "LOCK"));
}

// A tier that fails fails the calls that need it, with its name and the errno, and then every other one.
TEST(Misuse, FailedReadIsReportedByWaitAndEverythingAfter) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  const TempDirectory directory;
  Options options = small_options(directory.path());
  options.store.kind = StoreKind::kRocksdb;
  std::atomic<bool> broken = false;
  HookedFiles files([&](std::string_view what, const std::string& path) {
    if (broken && what == "map" && path.ends_with(".sst")) {
      throw IoError(path + ": cannot read", EIO);
    }
  });
  options.files = &files;
  {
    Cache cache = Cache::open(options);
    Ticket ticket = cache.prefetch(0, ids_from(0, 10), 1);
    cache.wait(ticket);
    cache.update(ticket, std::vector<float>(20, 1.0F));
    cache.release(std::move(ticket));
    cache.commit_step(1);
    ticket = cache.prefetch(0, ids_from(10, 10), 2);  // drives the others out
    cache.wait(ticket);
    cache.release(std::move(ticket));
    broken = true;
    ticket = cache.prefetch(0, ids_from(0, 10), 3);
    try {
      cache.wait(ticket);
      FAIL() << "rows came from a broken disk";
    } catch (const IoError& error) {
      EXPECT_EQ(error.error_number(), EIO);
      EXPECT_THAT(error.what(), HasSubstr("rocksdb: cannot read 10 rows"));
    }
    EXPECT_THROW(cache.commit_step(3), IoError);
    EXPECT_THROW(cache.prefetch(0, ids_from(0, 1), 4), IoError);
  }
  broken = false;
  Cache cache = Cache::open(options);
  EXPECT_EQ(cache.last_step(), 1U);
}

TEST(Misuse, SlowStoreIsAnErrorAfterTheDeadline) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  const TempDirectory directory;
  Options options = small_options(directory.path());
  options.store.kind = StoreKind::kRocksdb;
  options.wait_seconds = 1;
  std::atomic<bool> slow = false;
  HookedFiles files([&](std::string_view what, const std::string& path) {
    while (slow && what == "map" && path.ends_with(".sst")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  options.files = &files;
  Cache cache = Cache::open(options);
  Ticket ticket = cache.prefetch(0, ids_from(0, 10), 1);
  cache.wait(ticket);
  cache.update(ticket, std::vector<float>(20, 1.0F));
  cache.release(std::move(ticket));
  cache.commit_step(1);
  ticket = cache.prefetch(0, ids_from(10, 10), 2);
  cache.release(std::move(ticket));
  slow = true;
  ticket = cache.prefetch(0, ids_from(0, 10), 3);
  EXPECT_THAT(error_of([&] { cache.wait(ticket); }), HasSubstr("is late by 1 s"));
  slow = false;
  cache.release(std::move(ticket));
}

// Its rows are still coming when it is given up: their slots may not be filled under the next owner's feet.
TEST(Misuse, TicketReleasedBeforeItsRowsCame) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  const TempDirectory directory;
  Options options = small_options(directory.path());
  options.store.kind = StoreKind::kRocksdb;
  options.check_shadow = true;
  std::atomic<bool> slow = false;
  HookedFiles files([&](std::string_view what, const std::string& path) {
    // The first read, not those of the next batch.
    if (what == "map" && path.ends_with(".sst") && slow.exchange(false)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  });
  options.files = &files;
  Cache cache = Cache::open(options);
  Ticket ticket = cache.prefetch(0, ids_from(0, 10), 1);
  cache.wait(ticket);
  cache.update(ticket, std::vector<float>(20, 1.0F));
  cache.release(std::move(ticket));
  cache.commit_step(1);
  ticket = cache.prefetch(0, ids_from(10, 10), 2);
  cache.wait(ticket);
  cache.release(std::move(ticket));
  slow = true;
  cache.release(cache.prefetch(0, ids_from(0, 10), 3));
  ticket = cache.prefetch(0, ids_from(20, 10), 4);
  cache.wait(ticket);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // whatever was late has come
  std::vector<float> out(20);
  cache.gather(ticket, out.data(), 2);  // compared with the shadow
  cache.release(std::move(ticket));
}

TEST(Misuse, TicketMayOutliveItsCache) {
  Ticket ticket;
  {
    Cache cache = Cache::open(small_options());
    ticket = cache.prefetch(0, ids_from(0, 3), 1);
  }
  EXPECT_EQ(ticket.ids().size(), 3U);
}

TEST(Misuse, OptionsNameWhatIsWrong) {
  EXPECT_THAT(error_of([] { parse_options("tables: []", "f.yaml"); }), HasSubstr("at least one"));
  EXPECT_THAT(error_of([] {
                parse_options("tables: [{name: a, host_rows: 5, segmnts: [{width: 2}]}]", "f.yaml");
              }),
              HasSubstr("did you mean"));
  EXPECT_THAT(error_of([] {
                parse_options("tables: [{name: a, host_rows: 5, segments: [{width: 0}]}]",
                              "f.yaml");
              }),
              HasSubstr("width"));
  for (const char* rate : {"1e39", "1e-60"}) {
    EXPECT_THAT(error_of([rate] {
                  parse_options(fmt::format("tables: [{{name: a, host_rows: 5, segments: [{{width: "
                                            "2, optimizer: {{lr: {}}}}}]}}]",
                                            rate),
                                "f.yaml");
                }),
                HasSubstr("lr: expected a number > 0 that a float of 32 bits holds"));
  }
  const Options options = parse_options(
      "embedding_cache: {seed: 7, tables: [{name: a, host_rows: 5, policy: lfu, segments: "
      "[{width: 2, optimizer: {kind: ftrl, l1: 0.5}}]}]}",
      "f.yaml");
  EXPECT_EQ(options.tables[0].segments[0].optimizer.kind, OptimizerKind::kFtrl);
  EXPECT_EQ(print_options(parse_options(print_options(options), "again")), print_options(options));
}

}  // namespace
}  // namespace mstrain::embedding_cache
