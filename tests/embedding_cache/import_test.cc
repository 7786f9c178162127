// Rows that come from elsewhere into a cache, or a reader, that has some.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "embedding_cache/reader.h"
#include "embedding_cache/stats.h"
#include "tests/embedding_cache/small_table.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

std::vector<Id> ids_of(Cache& cache) {
  std::vector<Id> out;
  cache.scan(0, [&](Id id, const std::byte*) { out.push_back(id); });
  EXPECT_EQ(cache.stats().tables[0].rows, out.size());
  return out;
}

void read(Cache& cache, std::span<const Id> ids) {
  Ticket ticket = cache.prefetch(0, ids, 1, Use::kRead);
  cache.wait(ticket);
  cache.release(std::move(ticket));
}

// Rows expire after five steps.
Options that_expire(const std::string& directory, StoreKind store) {
  Options options = one_table(directory, store);
  options.keep = 9;
  options.tables[0].eviction.ttl_steps = 5;
  return options;
}

TEST(Imports, IdsThatWereReadAloneAreNoRows) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    std::filesystem::create_directories(directory.path());
    Cache from = Cache::open(that_expire(directory / "from", store));
    learn(from, 0, std::vector<Id>{1}, 1);
    const CommitId first = from.commit_step(1);
    from.export_delta(0, directory / "all");
    learn(from, 0, std::vector<Id>{7, 8, 9}, 2);
    learn(from, 0, std::vector<Id>{1}, 9);
    EXPECT_EQ(from.evict(9), 3U);
    EXPECT_EQ(from.export_delta(first, directory / "delta").tombstones, 3U);

    Options options = one_table(directory / "to", store);
    options.tables[0].eviction.max_rows = 3;
    Cache to = Cache::open(options);
    to.import_delta(directory / "all");
    read(to, std::vector<Id>{7, 8, 9});
    to.import_delta(directory / "delta");
    EXPECT_EQ(ids_of(to), std::vector<Id>{1});
    EXPECT_EQ(to.evict(9), 0U);
    read(to, std::vector<Id>{5, 6});
    to.load_weights(0, std::vector<Id>{5, 6}, std::vector<float>(4, 1.0F));
    EXPECT_EQ(ids_of(to), (std::vector<Id>{1, 5, 6}));
  }
}

// A row forgotten and begun anew stays, and one forgotten for good does not come back.
TEST(Imports, NoDeltaTakesACacheBack) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    std::filesystem::create_directories(directory.path());
    Cache from = Cache::open(that_expire(directory / "from", store));
    learn(from, 0, std::vector<Id>{1, 7}, 1);
    const CommitId first = from.commit_step(1);
    from.export_delta(0, directory / "all");
    learn(from, 0, std::vector<Id>{1}, 9);
    from.evict(9);
    const CommitId second = from.commit_step(9);
    from.export_delta(first, directory / "without");
    learn(from, 0, std::vector<Id>{7}, 20);
    from.evict(20);  // forgets 1
    from.export_delta(second, directory / "again");

    Cache to = Cache::open(one_table(directory / "to", store));
    for (const char* file : {"all", "without", "without", "again", "again"}) {
      to.import_delta(directory / file);
    }
    const std::string digest = to.digest();
    EXPECT_EQ(digest, from.digest());
    for (const char* file : {"without", "all"}) {
      EXPECT_THAT([&] { to.import_delta(directory / file); },
                  testing::ThrowsMessage<Error>(
                      testing::AllOf(testing::HasSubstr(std::string(file) + ": ends at step "),
                                     testing::HasSubstr("this cache holds step 20 already"))));
    }
    EXPECT_EQ(to.digest(), digest);
    EXPECT_EQ(ids_of(to), std::vector<Id>{7});
  }
}

// As many rows were loaded as there are, and none of these is of them.
TEST(Imports, NoOlderRowReplacesOneAfterForgetting) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    Cache cache = Cache::open(that_expire(directory.path(), store));
    cache.load_weights(0, std::vector<Id>{1, 2, 3}, std::vector<float>(6, 1.0F));
    learn(cache, 0, std::vector<Id>{200, 201, 202}, 9);
    EXPECT_EQ(cache.evict(9), 3U);
    const std::string digest = cache.digest();
    EXPECT_THAT(
        [&] { cache.load_weights(0, std::vector<Id>{200}, std::vector<float>(2, 7.0F)); },
        testing::ThrowsMessage<Error>(testing::HasSubstr("row 200 of table \"t\" was learned")));
    EXPECT_EQ(cache.digest(), digest);
    EXPECT_EQ(ids_of(cache), (std::vector<Id>{200, 201, 202}));
    cache.load_weights(0, std::vector<Id>{1, 300}, std::vector<float>(4, 7.0F));
    EXPECT_EQ(ids_of(cache), (std::vector<Id>{1, 200, 201, 202, 300}));
  }
}

// It names no row that has gone, and what takes it may be at any earlier step.
TEST(Imports, AnExportOfEverythingReplacesWhatIsThere) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    std::filesystem::create_directories(directory.path());
    Options options = that_expire(directory / "from", store);
    Cache from = Cache::open(options);
    learn(from, 0, std::vector<Id>{1, 2, 3}, 1);
    const CommitId first = from.commit_step(1);
    Reader reader = Reader::open({.directory = options.directory});
    const std::vector<Id> ids{1, 2, 3, 4, 77};
    std::vector<float> weights(10);
    std::array<bool, 5> found{};
    reader.lookup(0, ids, weights.data(), 2, found.data());  // 1, 2 and 3 are in its memory
    EXPECT_EQ(found, (std::array{true, true, true, false, false}));
    learn(from, 0, std::vector<Id>{3}, 2);
    from.export_delta(first, directory / "third");
    reader.apply_delta(directory / "third");
    learn(from, 0, std::vector<Id>{2, 4}, 9);
    EXPECT_EQ(from.evict(9), 2U);
    from.export_delta(0, directory / "all");

    reader.apply_delta(directory / "all");
    reader.lookup(0, ids, weights.data(), 2, found.data());
    EXPECT_EQ(found, (std::array{false, true, false, true, false}));
    EXPECT_EQ(reader.stats().delta_rows, 2U);
    const CommitId second = from.commit_step(9);
    std::vector<float> of_commit(10);
    Reader::open({.directory = options.directory}).lookup(0, ids, of_commit.data(), 2);
    EXPECT_EQ(weights, of_commit);

    Options others = one_table(directory / "to", store);
    others.keep = 9;
    Cache to = Cache::open(others);
    learn(to, 0, std::vector<Id>{1, 2, 5}, 1);
    const CommitId before = to.commit_step(1);
    const ExportSummary summary = to.import_delta(directory / "all");
    EXPECT_EQ(std::pair(summary.rows, summary.tombstones), std::pair(uint64_t{2}, uint64_t{2}));
    EXPECT_EQ(ids_of(to), (std::vector<Id>{2, 4}));
    EXPECT_EQ(to.digest(), from.digest());
    EXPECT_EQ(to.export_delta(before, directory / "of it").tombstones, 2U) << "1 and 5";

    learn(from, 0, std::vector<Id>{1}, 10);
    from.export_delta(second, directory / "more");
    reader.apply_delta(directory / "more");
    reader.lookup(0, ids, weights.data(), 2, found.data());
    EXPECT_EQ(found, (std::array{true, true, false, true, false}));
    from.commit_step(11);
    EXPECT_TRUE(reader.move_to());
    reader.lookup(0, ids, weights.data(), 2, found.data());
    EXPECT_EQ(found, (std::array{true, true, false, true, false}));
  }
}

// Weights that are loaded are of step 0, and records may be of any.
TEST(Imports, DeltasTellOfOlderRowsThatCameAfterTheirCommit) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    std::filesystem::create_directories(directory.path());
    const Options options = that_expire(directory / "from", store);
    auto from = std::make_unique<Cache>(Cache::open(options));
    learn(*from, 0, std::vector<Id>{1, 40, 60}, 5);
    const CommitId first = from->commit_step(5);
    Reader reader = Reader::open({.directory = options.directory});
    Cache to = Cache::open(one_table(directory / "to", store));
    from->export_delta(0, directory / "all");
    to.import_delta(directory / "all");
    const auto send = [&](CommitId since) {
      const ExportSummary summary = from->export_delta(since, directory / "delta");
      to.import_delta(directory / "delta");
      EXPECT_EQ(to.digest(), from->digest());
      reader.apply_delta(directory / "delta");
      from->scan(0, [&](Id id, const std::byte* record) {
        std::array<float, 2> served{};
        reader.lookup(0, std::span(&id, 1), served.data(), 2);
        EXPECT_EQ(std::memcmp(served.data(), record + kHeaderBytes, sizeof served), 0) << id;
      });
      return std::pair(summary.rows, summary.tombstones);
    };
    using Counts = std::pair<uint64_t, uint64_t>;

    from->load_weights(0, std::vector<Id>{20, 50, 51, 52}, std::vector<float>(8, 3.0F));
    EXPECT_EQ(send(first), Counts(4, 0));
    learn(*from, 0, std::vector<Id>{1, 51, 60}, 6);
    const CommitId second = from->commit_step(6);
    from.reset();
    from = std::make_unique<Cache>(Cache::open(options));
    EXPECT_EQ(send(first), Counts(6, 0));  // all but 40
    EXPECT_EQ(send(second), Counts(0, 0));

    learn(*from, 0, std::vector<Id>{51}, 11);
    EXPECT_EQ(from->evict(11), 6U);
    EXPECT_EQ(send(first), Counts(1, 6));
    from->load_weights(0, std::vector<Id>{40}, std::vector<float>(2, 4.0F));
    EXPECT_EQ(send(second), Counts(2, 5));
    EXPECT_EQ(ids_of(to), (std::vector<Id>{40, 51}));
  }
}

}  // namespace
}  // namespace mstrain::embedding_cache
