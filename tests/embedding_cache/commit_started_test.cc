// Commits that are written while training goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <numeric>
#include <thread>

#include "core/base/error.h"
#include "tests/embedding_cache/commits.h"
#include "tests/embedding_cache/hooked_files.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

// What a commit holds that is written behind is what was learned when it was started, however slow the disk and whatever came after.
TEST(Commit, StartedHoldsWhatWasLearnedThen) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    HookedFiles files([](std::string_view, const std::string&) {
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    });
    const Rehearsal rehearsal{.steps = 60,
                              .commit_every = 6,
                              .commit_behind = true,
                              .evict_every = 30,
                              .depth = 2,
                              .vocabulary = 800,
                              .positions = 60};
    Options options = rehearsal.cache_options(directory.path(), 0.1, store);
    options.keep = 100;
    options.check_shadow = true;
    Rehearsal plain = rehearsal;
    plain.commit_behind = false;
    const auto golden = golden_digests(plain, store);
    options.files = &files;
    {
      Cache cache = Cache::open(options);
      rehearsal.run(cache);
      EXPECT_GT(cache.stats().tables[0].evicted_dirty, 0U);
      EXPECT_EQ(cache.digest(), golden.at(60));
    }
    options.files = nullptr;
    const std::vector<CommitId> ids = list_commit_folders(real_files(), directory.path());
    EXPECT_EQ(ids.size(), 10U);
    for (const CommitId id : ids) {
      Cache cache = Cache::resume(options, id);
      EXPECT_EQ(cache.digest(), golden.at(cache.last_step())) << "commit " << id;
    }
  }
}

TEST(Commit, StartedReturnsBeforeTheDiskDoesAndIsToldApart) {
  const TempDirectory directory;
  std::atomic<bool> stuck = true;
  std::atomic<bool> broken = false;
  HookedFiles files([&](std::string_view what, const std::string& path) {
    if (path.find("commits") != std::string::npos) {
      while (stuck) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (broken && what == "append") {
        throw IoError("the disk broke", EIO);
      }
    }
  });
  stuck = false;
  const Rehearsal rehearsal{.steps = 5, .commit_every = 0, .positions = 40};
  Options options = rehearsal.cache_options(directory.path(), 0.5, StoreKind::kMemory);
  options.files = &files;
  std::string expected;
  {
    Cache cache = Cache::open(options);
    rehearsal.run(cache);
    stuck = true;
    const CommitId first = cache.start_commit(5);
    EXPECT_EQ(first, 1U);
    EXPECT_EQ(cache.last_commit(), 0U) << "not durable yet";
    EXPECT_THROW(cache.prefetch(0, std::vector<Id>{1}, 5), Error) << "step 5 belongs to the commit";
    stuck = false;
    cache.wait_commit(first);
    EXPECT_EQ(cache.last_commit(), 1U);
    cache.wait_commit(first);
    EXPECT_THROW(cache.wait_commit(7), Error);
    // One that fails says so where it is awaited, or where the next one is started; the cache goes on.
    broken = true;
    const CommitId second = cache.start_commit(6);
    EXPECT_THROW(cache.wait_commit(second), IoError);
    cache.start_commit(6);
    EXPECT_THROW(cache.start_commit(6), IoError);
    broken = false;
    expected = cache.digest();
    EXPECT_EQ(cache.last_commit(), 1U);
    cache.start_commit(6);
  }  // ended by closing
  Cache cache = Cache::open(options);
  EXPECT_EQ(cache.last_step(), 6U);
  EXPECT_EQ(cache.digest(), expected);
}

// A row that left before a commit was started, came back, learned, and left again: what is on its way to the store is older than what was
// saved for the commit.
TEST(Commit, StartedKeepsTheNewestOfARowThatLeftTwice) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  constexpr uint64_t kRows = 100;
  const TempDirectory directory;
  std::atomic<bool> stuck = false;
  HookedFiles files([&](std::string_view what, const std::string& path) {
    while (stuck && what == "append" && path.ends_with(".sst")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  Options options;
  options.directory = directory.path();
  options.files = &files;
  options.check_shadow = true;
  options.store.kind = StoreKind::kRocksdb;
  options.store.write_back_rows = 80;
  options.tables = {{.name = "t", .host_rows = kRows, .segments = {{.width = 4096}}}};
  Cache cache = Cache::open(options);
  const std::shared_ptr<void> at_last(nullptr, [&](void*) { stuck = false; });  // closing waits
  uint64_t step = 0;
  const auto learn = [&](Id first, uint64_t count) {
    std::vector<Id> ids(count);
    std::iota(ids.begin(), ids.end(), first);
    Ticket ticket = cache.prefetch(0, ids, ++step);
    cache.wait(ticket);
    std::vector<float> values(count * 4096);
    cache.gather(ticket, values.data(), 4096);  // compared with the shadow
    cache.update(ticket, values);
    cache.release(std::move(ticket));
  };
  learn(0, kRows);
  stuck = true;
  learn(1000, kRows);  // drives the first ones out; 80 of them, more than a mebibyte, are stuck
  learn(0, 10);        // back again
  const CommitId id = cache.start_commit(step);
  learn(2000, kRows);
  learn(0, 10);
  stuck = false;
  cache.commit(id);
  learn(0, kRows);
}

// A store in which every sorted file takes a fifth of a second, and a commit of some twenty of them. Rows come in batches that take a
// small part of the deadline on a busy machine under sanitizers too.
class SlowCommit : public testing::Test {
 protected:
  TempDirectory directory;
  std::atomic<bool> slow = false;
  std::atomic<bool> stuck = false;
  HookedFiles files{[this](std::string_view what, const std::string& path) {
    if (what == "sync" && path.find("ingest-") != std::string::npos) {
      if (slow) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
      stuck.wait(true);
    }
  }};
  Options options;
  uint64_t step = 0;

  void SetUp() override {
    if (!has_rocksdb()) {
      GTEST_SKIP() << "built without RocksDB";
    }
    options.directory = directory.path();
    options.files = &files;
    options.store.kind = StoreKind::kRocksdb;
    options.store.write_back_mib = 1;
    options.wait_seconds = 2;
    options.tables = {{.name = "t",
                       .host_rows = 300,
                       .segments = {{.width = 16384, .init = {.kind = InitKind::kZero}}}}};
  }

  void learn_all(Cache& cache) {
    for (Id first = 0; first < 300; first += 20) {
      learn(cache, first, 20);
    }
  }

  void learn(Cache& cache, Id first, uint64_t count) {
    std::vector<Id> ids(count);
    std::iota(ids.begin(), ids.end(), first);
    Ticket ticket = cache.prefetch(0, ids, ++step);
    cache.wait(ticket);
    cache.update(ticket, std::vector<float>(count * 16384, 1.0F));
    cache.release(std::move(ticket));
  }
};

TEST_F(SlowCommit, IsWaitedForByClosingAsLongAsItGetsOn) {
  {
    Cache cache = Cache::open(options);
    learn_all(cache);
    slow = true;
    cache.start_commit(step);
  }
  slow = false;
  Cache cache = Cache::open(options);
  EXPECT_EQ(cache.last_step(), step);
  EXPECT_EQ(cache.stats().tables[0].rows, 300U);
}

TEST_F(SlowCommit, IsWaitedForByPrefetchAsLongAsItGetsOn) {
  Cache cache = Cache::open(options);
  learn_all(cache);
  slow = true;
  cache.start_commit(step);
  learn_all(cache);
  learn(cache, 1000, 50);  // 3 MiB on their way out, which the commit holds back
  learn(cache, 1050, 1);
  slow = false;
  EXPECT_EQ(cache.last_commit(), 1U) << "more than a mebibyte goes only after it";
  cache.commit_step(step);
}

TEST_F(SlowCommit, IsGivenUpAloudByClosingWhereItGetsNowhere) {
  std::string said;
  const LogSink before = set_log_sink([&](LogLevel, std::string_view text) {
    said += text;
    stuck = false;
    stuck.notify_all();
  });
  {
    Cache cache = Cache::open(options);
    learn_all(cache);
    stuck = true;
    cache.start_commit(step);
  }
  set_log_sink(before);
  EXPECT_NE(said.find("closing gives up commit 1 of step 15"), std::string::npos) << said;
  Cache cache = Cache::open(options);
  EXPECT_EQ(cache.last_step(), 0U);
}

}  // namespace
}  // namespace mstrain::embedding_cache
