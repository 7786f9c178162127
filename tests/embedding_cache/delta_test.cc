// The way of rows to a serving side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/rng.h"
#include "embedding_cache/delta.h"
#include "embedding_cache/reader.h"
#include "embedding_cache/rehearsal.h"
#include "tests/embedding_cache/small_table.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kVocabularySeed = 5;

using Rows = std::map<std::pair<uint32_t, Id>, std::vector<float>>;

Rows weights_of_all(Cache& cache) {
  Rows out;
  for (uint32_t t = 0; t < cache.options().tables.size(); ++t) {
    cache.scan(t, [&](Id id, const std::byte* record) {
      const float* w = weights_of(record);
      out[{t, id}].assign(w, w + cache.layout(t).width());
    });
  }
  return out;
}

// Base export + deltas, imported elsewhere, equal the trained tables; a reader that takes them sees the same weights.
TEST(Deltas, DeltasCarryRowsAndTombstones) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    const TempDirectory other_directory;
    std::filesystem::create_directories(other_directory.path() + "-files");
    const std::string files = other_directory.path() + "-files/";
    Rehearsal rehearsal{.steps = 20, .evict_every = 10, .vocabulary = 1500, .positions = 80};
    Options options = rehearsal.cache_options(directory.path(), 0.1, store);
    options.keep = 10;
    options.tables[0].eviction = {.ttl_steps = 8, .min_keep_rows = 10};
    Cache trained = Cache::open(options);
    rehearsal.run(trained);
    Options same = options;
    same.directory = other_directory.path();
    Cache copy = Cache::open(same);
    const CommitId base = trained.last_commit();
    Reader reader =
        Reader::open({.directory = directory.path(), .host_rows = 50, .read_threads = 2});
    EXPECT_EQ(reader.commit(), base);
    trained.export_delta(0, files + "base");
    copy.import_delta(files + "base");
    EXPECT_EQ(weights_of_all(copy), weights_of_all(trained));

    rehearsal.steps = 50;
    rehearsal.run(trained);
    const ExportSummary summary = trained.export_delta(base, files + "delta");
    EXPECT_GT(summary.tombstones, 0U);
    EXPECT_GT(summary.rows, 0U);
    uint64_t rows = 0;
    for (const TableStats& table : trained.stats().tables) {
      rows += table.rows;
    }
    copy.import_delta(files + "delta");
    const Rows expected = weights_of_all(trained);
    EXPECT_EQ(weights_of_all(copy), expected);
    for (size_t t = 0; t < 2; ++t) {
      EXPECT_EQ(copy.stats().tables[t].rows, trained.stats().tables[t].rows);
    }
    trained.export_delta(base, files + "weights", false);
    reader.apply_delta(files + "weights");
    for (uint32_t t = 0; t < 2; ++t) {
      std::vector<Id> ids;
      for (Id rank = 1; rank <= 1500; ++rank) {
        ids.push_back(hash_mix(rank));
      }
      const size_t width = reader.width(t);
      std::vector<float> out(ids.size() * width);
      const auto found = std::make_unique<bool[]>(ids.size());
      reader.lookup(t, ids, out.data(), width, found.get());
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto row = expected.find({t, ids[i]});
        ASSERT_EQ(found[i], row != expected.end()) << t << " " << i;
        std::vector<float> untrained(width);
        if (t == 0) {  // ids of the other one are admitted before they get a row
          std::vector<std::byte> record(trained.layout(t).record_bytes());
          trained.layout(t).initialise(table_seed(options.seed, "deep"), ids[i], record.data());
          std::copy_n(weights_of(record.data()), width, untrained.begin());
        }
        ASSERT_EQ(std::vector<float>(&out[i * width], &out[(i + 1) * width]),
                  row == expected.end() ? untrained : row->second)
            << "table " << t << " id " << ids[i];
      }
    }
    EXPECT_THROW(copy.import_delta(files + "weights"), Error);
    Reader late = Reader::open({.directory = directory.path(), .commit = base});
    EXPECT_LT(trained.export_delta(base + 2, files + "gap", false).rows, rows)
        << "a delta is not everything";
    EXPECT_THROW(late.apply_delta(files + "gap"), Error);
    std::filesystem::remove_all(other_directory.path() + "-files");
  }
}

// A reader gives for new ids what training would start from, unless the table says zeros.
TEST(Deltas, ReadersSeeWhatTrainingSees) {
  for (const Untrained untrained : {Untrained::kAsInTraining, Untrained::kZeros}) {
    const TempDirectory directory;
    Options options = one_table(directory.path());
    options.tables[0].untrained = untrained;
    options.tables[0].eviction = {.ttl_steps = 1};
    Cache cache = Cache::open(options);
    learn(cache, 0, std::vector<Id>{1, 2, 3}, 1);
    cache.commit_step(1);
    Reader reader = Reader::open({.directory = directory.path()});
    learn(cache, 0, std::vector<Id>{3}, 2);
    cache.evict(2);  // 1 and 2 are gone
    cache.export_delta(1, directory / "delta", false);
    reader.apply_delta(directory / "delta");
    const std::vector<Id> ids{1, 2, 3, 77};
    std::vector<float> served(8, 9.0F);
    bool found[4];
    reader.lookup(0, ids, served.data(), 2, found);
    std::vector<float> trained(8);
    Ticket ticket = cache.prefetch(0, ids, 3, Use::kRead);
    cache.wait(ticket);
    cache.gather(ticket, trained.data(), 2);
    cache.release(std::move(ticket));
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(found[i], i == 2);
      for (size_t j = 2 * i; j < 2 * i + 2; ++j) {
        EXPECT_EQ(served[j], untrained == Untrained::kZeros && i != 2 ? 0.0F : trained[j]);
      }
    }
    EXPECT_EQ(reader.stats().missing, 3U);
    cache.commit_step(2);
    EXPECT_FALSE(reader.move_to()) << "the delta was of the same step";
    learn(cache, 0, std::vector<Id>{2}, 3);
    cache.commit_step(3);
    EXPECT_TRUE(reader.move_to());
    reader.lookup(0, ids, served.data(), 2, found);
    EXPECT_TRUE(found[1]);
    EXPECT_EQ(reader.stats().delta_rows, 0U);
  }
}

TEST(Deltas, DeltasAreTakenWithoutGaps) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory.path());
  Options options = one_table(directory / "from");
  options.keep = 9;
  Cache cache = Cache::open(options);
  learn(cache, 0, std::vector<Id>{1, 2}, 1);
  cache.commit_step(5);  // later than any row
  cache.export_delta(0, directory / "all");
  learn(cache, 0, std::vector<Id>{3}, 6);
  cache.commit_step(6);
  cache.export_delta(1, directory / "second");
  learn(cache, 0, std::vector<Id>{4}, 7);
  cache.export_delta(2, directory / "third");
  Cache copy = Cache::open(one_table(directory / "to"));
  for (const char* early : {"second", "third"}) {
    try {
      copy.import_delta(directory / early);
      FAIL() << early;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("this cache holds step 0")) << early;
    }
  }
  EXPECT_EQ(copy.stats().tables[0].rows, 0U);
  copy.import_delta(directory / "all");
  EXPECT_THROW(copy.import_delta(directory / "third"), Error);
  copy.import_delta(directory / "second");
  copy.import_delta(directory / "third");
  EXPECT_EQ(copy.digest(), cache.digest());
}

// Of a run that has gone back to an earlier commit, whose steps fit.
TEST(Deltas, DeltasOfAnotherLineAreRefused) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    std::filesystem::create_directories(directory.path());
    Options options = one_table(directory / "from", store);
    options.keep = 9;
    auto cache = std::make_unique<Cache>(Cache::open(options));
    Cache copy = Cache::open(one_table(directory / "to", store));
    learn(*cache, 0, std::vector<Id>{1}, 30);
    const CommitId first = cache->commit_step(30);
    learn(*cache, 0, std::vector<Id>{1}, 40);
    const CommitId second = cache->commit_step(50);
    cache->export_delta(0, directory / "old");
    cache.reset();
    Reader reader = Reader::open({.directory = options.directory});
    EXPECT_EQ(reader.commit(), second);
    copy.import_delta(directory / "old");
    copy.commit_step(50);
    Reader of_copy = Reader::open({.directory = directory / "to"});

    cache = std::make_unique<Cache>(Cache::resume(options, first));
    learn(*cache, 0, std::vector<Id>{2}, 60);
    for (const uint64_t step : {60, 61}) {
      cache->export_delta(first, directory / "other");
      const auto refuses = [&](const char* who) {
        return testing::ThrowsMessage<Error>(
            testing::AllOf(testing::HasSubstr("other: of another line of the run"),
                           testing::HasSubstr("commit 2 of step 50; this " + std::string(who))));
      };
      const std::string digest = copy.digest();
      EXPECT_THAT([&] { reader.apply_delta(directory / "other"); }, refuses("reader"));
      EXPECT_THAT([&] { of_copy.apply_delta(directory / "other"); }, refuses("reader"));
      EXPECT_THAT([&] { copy.import_delta(directory / "other"); }, refuses("cache"));
      EXPECT_EQ(copy.digest(), digest);
      EXPECT_EQ(reader.step(), 50U);
      cache->commit_step(step);  // removes the second one
      learn(*cache, 0, std::vector<Id>{3}, step + 1);
    }
    cache->export_delta(0, directory / "all");
    cache->export_delta(first, directory / "other");
    for (Reader* each : {&reader, &of_copy}) {
      each->apply_delta(directory / "all");
      each->apply_delta(directory / "other");
    }
    Cache fresh = Cache::open(one_table(directory / "fresh", store));
    fresh.import_delta(directory / "all");
    fresh.import_delta(directory / "other");
    EXPECT_EQ(fresh.digest(), cache->digest());
  }
}

// What came in the place of all rows is of its own line, whatever the commit before was of.
TEST(Deltas, DeltasBehindAnExportOfEverythingAreOfItsLine) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    std::filesystem::create_directories(directory.path());
    Options options = one_table(directory / "from", store);
    options.keep = 9;
    auto cache = std::make_unique<Cache>(Cache::open(options));
    learn(*cache, 0, std::vector<Id>{1}, 30);
    const CommitId first = cache->commit_step(30);
    learn(*cache, 0, std::vector<Id>{9}, 40);
    cache->commit_step(50);
    cache.reset();
    std::filesystem::copy(directory / "from", directory / "twin",
                          std::filesystem::copy_options::recursive);
    Cache twin = Cache::open(one_table(directory / "twin", store));

    cache = std::make_unique<Cache>(Cache::resume(options, first));
    learn(*cache, 0, std::vector<Id>{2}, 60);
    cache->commit_step(60);
    cache->export_delta(0, directory / "all");
    learn(*cache, 0, std::vector<Id>{3}, 61);
    cache->export_delta(first, directory / "other");
    EXPECT_THAT([&] { twin.import_delta(directory / "other"); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("of another line of the run")));
    twin.import_delta(directory / "all");
    twin.import_delta(directory / "other");
    EXPECT_EQ(twin.digest(), cache->digest());
  }
}

// A tombstone is needed as long as some delta may have to tell it.
TEST(Deltas, TombstonesGoWithTheCommitsThatNeedThem) {
  const TempDirectory directory;
  Options options = one_table(directory.path());
  options.keep = 2;
  options.tables[0].eviction = {.ttl_steps = 1};
  Cache cache = Cache::open(options);
  uint64_t step = 0;
  const auto advance = [&](Id id) {
    learn(cache, 0, std::vector<Id>{id}, ++step);
    cache.evict(step);
    return cache.commit_step(step);
  };
  for (Id id = 1; id <= 40; ++id) {
    advance(id);
    EXPECT_LE(cache.stats().tables[0].tombstones, 2U) << "of the newest two commits";
  }
  const CommitId oldest = cache.last_commit() - 1;
  std::filesystem::create_directories(directory / "files");
  EXPECT_EQ(cache.export_delta(oldest, directory / "files/delta").tombstones, 1U);
  cache = Cache::open(one_table(TempDirectory().path()));
  options.keep = 1;
  cache = Cache::open(options);
  EXPECT_LE(cache.stats().tables[0].tombstones, 2U);
  advance(100);
  EXPECT_EQ(cache.stats().tables[0].tombstones, 0U);
}

TEST(Deltas, DeltaFilesOfAnyBytesAreErrors) {
  Rng rng(kVocabularySeed);
  const TempDirectory directory;
  std::filesystem::create_directories(directory.path());
  Cache cache = Cache::open(one_table(directory / "cache"));
  learn(cache, 0, std::vector<Id>{1, 2, 3, 4, 5}, 1);
  cache.export_delta(0, directory / "delta");
  const std::string good = real_files().read(directory / "delta");
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    if (round % 3 == 0) {
      bytes.resize(rng.below(bytes.size()));
    } else {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.next_u32());
    }
    if (round % 3 == 2 && bytes.size() > 4) {  // damage behind a checksum that fits
      const uint32_t crc = crc32c(as_bytes(std::string_view(bytes).substr(0, bytes.size() - 4)));
      std::memcpy(bytes.data() + bytes.size() - 4, &crc, 4);
    }
    const auto file = real_files().open(directory / "damaged", WriteMode::kTruncate);
    file->append(bytes);
    file->close();
    try {
      const DeltaReader reader(real_files(), directory / "damaged");
      EXPECT_TRUE(bytes == good || round % 3 == 2) << "a damaged delta was read";
      uint64_t seen = 0;
      reader.read([&](uint32_t, std::span<const Id> ids, const std::byte*) { seen += ids.size(); });
      EXPECT_LE(seen, 5U);
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("damaged: "));
    }
  }
}

// Readers in several threads while deltas arrive: each lookup sees one state, never a mixture.
TEST(Deltas, ReadersSeeWholeDeltas) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    std::filesystem::create_directories(directory.path());
    Cache cache = Cache::open(one_table(directory / "cache", store));
    std::vector<Id> ids(40);
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = i * 977;
    }
    learn(cache, 0, ids, 1);
    cache.commit_step(1);
    std::vector<std::string> deltas;
    // Every row moves by the same amount at each step, so rows of one state differ from the first one by one number.
    for (uint64_t step = 2; step <= 12; ++step) {
      learn(cache, 0, ids, step);
      deltas.push_back(directory / std::to_string(step));
      cache.export_delta(1, deltas.back(), step % 2 == 0);
    }
    Reader reader = Reader::open({.directory = directory / "cache", .host_rows = 16});
    std::vector<float> base(80);
    reader.lookup(0, ids, base.data(), 2);
    std::atomic<bool> stop = false;
    std::atomic<int> mixtures = 0;
    std::atomic<int> lookups = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        std::vector<float> out(80);
        while (!stop || lookups < 50) {
          reader.lookup(0, ids, out.data(), 2);
          ++lookups;
          for (size_t i = 1; i < ids.size(); ++i) {
            // Ten subtractions of 0.01 round differently by row, less than half a step in all.
            const float moved = (base[2 * i] - out[2 * i]) - (base[0] - out[0]);
            mixtures += moved > 0.005F || moved < -0.005F ? 1 : 0;
          }
        }
      });
    }
    for (const std::string& delta : deltas) {
      reader.apply_delta(delta);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    stop = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(mixtures, 0);
    EXPECT_EQ(reader.step(), 12U);
  }
}

TEST(Deltas, BulkLoadedRowsAreRows) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    Cache cache = Cache::open(one_table(directory.path(), store));
    const uint32_t bytes = cache.layout(0).record_bytes();
    std::vector<Id> ids;
    std::vector<std::byte> records;
    for (Id id = 0; id < 3000; ++id) {
      ids.push_back(id * 3);
      std::vector<std::byte> record(bytes);
      cache.layout(0).initialise(1, id, record.data());
      store_header(record.data(), {.step = 1, .updates = 2});
      weights_of(record.data())[0] = static_cast<float>(id);
      records.insert(records.end(), record.begin(), record.end());
    }
    cache.load(0, ids, records);
    EXPECT_EQ(cache.stats().tables[0].rows, 3000U);
    cache.load(0, std::span(ids).first(10), std::span(records).first(10 * bytes));  // once more
    EXPECT_EQ(cache.stats().tables[0].rows, 3000U);
    Ticket ticket = cache.prefetch(0, std::vector<Id>{30, 2997 * 3}, 5);
    cache.wait(ticket);
    std::vector<float> out(4);
    cache.gather(ticket, out.data(), 2);
    EXPECT_EQ(out[0], 10.0F);
    EXPECT_EQ(out[2], 2997.0F);
    cache.update(ticket, std::vector<float>(4, 1.0F));
    cache.release(std::move(ticket));
    const std::string learned = cache.digest();
    try {
      cache.load(0, std::span(ids).first(20), std::span(records).first(20 * bytes));
      FAIL() << "row 30 went back in time";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("row 30 of table"), std::string::npos)
          << error.what();
    }
    EXPECT_EQ(cache.digest(), learned);
    std::swap(ids[0], ids[1]);
    EXPECT_THROW(cache.load(0, ids, records), Error);
    store_header(records.data(), {});
    std::swap(ids[0], ids[1]);
    EXPECT_THROW(cache.load(0, ids, records), Error);
  }
}

}  // namespace
}  // namespace mstrain::embedding_cache
