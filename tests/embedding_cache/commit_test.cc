// What a commit holds, which are kept, and that damage is noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/embedding_cache/commits.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kCommitSeed = 77;

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      out.push_back(entry.path().string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

void flip_bit(const std::string& path, uint64_t bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(bit / 8));
  char byte = 0;
  file.get(byte);
  file.seekp(static_cast<std::streamoff>(bit / 8));
  file.put(static_cast<char>(byte ^ (1 << (bit % 8))));
}

TEST(Commit, CarriesTheUsersBytesAndCounters) {
  const TempDirectory directory;
  const Rehearsal rehearsal{.steps = 20, .evict_every = 20};
  const Options options = rehearsal.cache_options(directory.path(), 0.1, StoreKind::kAuto);
  const std::string blob("cursor\0=17", 10);
  Stats before;
  {
    Cache cache = Cache::open(options);
    rehearsal.run(cache);
    cache.commit_step(20, as_bytes(blob));
    before = cache.stats();
  }
  Cache cache = Cache::open(options);
  EXPECT_EQ(as_text(cache.user_blob()), blob);
  EXPECT_EQ(cache.last_step(), 20U);
  const Stats after = cache.stats();
  for (size_t t = 0; t < 2; ++t) {
    EXPECT_EQ(after.tables[t].rows, before.tables[t].rows);
    EXPECT_EQ(after.tables[t].tombstones, before.tables[t].tombstones);
    uint64_t counted = 0;
    cache.scan(static_cast<uint32_t>(t), [&](Id, const std::byte* record) {
      ++counted;
      EXPECT_LE(load_header(record).step, 20U);
    });
    EXPECT_EQ(counted, after.tables[t].rows);
  }
}

TEST(Commit, KeepsTheNewestOfThem) {
  const TempDirectory directory;
  const Rehearsal rehearsal{.steps = 60};
  Options options = rehearsal.cache_options(directory.path(), 0.1, stores().back());
  options.keep = 2;
  Cache cache = Cache::open(options);
  rehearsal.run(cache);
  EXPECT_EQ(complete_commits(directory.path()), (std::vector<CommitId>{5, 6}));
  // Prepared, but not confirmed: nothing goes yet.
  const CommitId id = cache.prepare(60);
  EXPECT_EQ(complete_commits(directory.path()), (std::vector<CommitId>{5, 6, 7}));
  cache.commit(id);
  EXPECT_EQ(complete_commits(directory.path()), (std::vector<CommitId>{6, 7}));
  cache = Cache::open(rehearsal.cache_options(TempDirectory().path(), 0.1, StoreKind::kMemory));
  EXPECT_EQ(list_commit_folders(real_files(), directory.path()), (std::vector<CommitId>{6, 7}))
      << "removed behind, at the latest when the cache is closed";
}

// Whoever goes back to a commit may need newer ones besides, and what comes after knows that it does not come from them.
TEST(Commit, AbandonedStaysWhileItIsNeeded) {
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    const Rehearsal rehearsal{.steps = 30};
    const std::map<uint64_t, std::string> golden = golden_digests(rehearsal, store);
    Options options = rehearsal.cache_options(directory.path(), 0.1, store);
    options.keep = 3;
    {
      Cache cache = Cache::open(options);
      rehearsal.run(cache);
    }
    ASSERT_EQ(complete_commits(directory.path()), (std::vector<CommitId>{1, 2, 3}));
    const std::vector<CommitId> needed{1, 3};
    {
      Cache cache = Cache::resume(options, 1);
      cache.commit(cache.prepare(40), needed);
      EXPECT_EQ(complete_commits(directory.path()), (std::vector<CommitId>{1, 3, 4}));
    }
    {
      Cache cache = Cache::open(options);
      EXPECT_EQ(cache.digest(), golden.at(10));
      EXPECT_ANY_THROW(cache.export_delta(3, directory / "delta")) << "from another line of steps";
      cache.export_delta(1, directory / "delta");
      cache.commit(cache.prepare(50), needed);
      EXPECT_EQ(read_manifest(real_files(), directory.path(), 5).abandoned,
                (std::map<CommitId, uint64_t>{{2, 20}, {3, 30}}));
    }
    EXPECT_EQ(Cache::resume(options, 3).digest(), golden.at(30));
    Cache cache = Cache::resume(options, 5);
    cache.commit_step(60);
    EXPECT_EQ(complete_commits(directory.path()), (std::vector<CommitId>{1, 5, 6}));
  }
}

// One flipped bit in each file of the newest commit: named, and the commit before is used; asked for by id, it is an error.
TEST(Commit, FlippedBitIsNamedAndTheCommitBeforeIsUsed) {
  Rng rng(kCommitSeed);
  for (const StoreKind store : stores()) {
    const TempDirectory directory;
    const Rehearsal rehearsal{.steps = 20, .vocabulary = 800, .positions = 60};
    const Options options = rehearsal.cache_options(directory.path(), 0.1, store);
    const auto golden = golden_digests(rehearsal, store);
    {
      Cache cache = Cache::open(options);
      rehearsal.run(cache);
      cache.commit_step(20, as_bytes("blob"));
    }
    const std::vector<std::string> files = files_below(commit_folder(directory.path(), 3));
    EXPECT_GE(files.size(), 5U);
    for (const std::string& file : files) {
      const uint64_t bits = std::filesystem::file_size(file) * 8;
      ASSERT_GT(bits, 0U) << file;
      const uint64_t bit = rng.below(bits);
      // A sorted file may be linked into older commits too: damage this commit alone.
      std::filesystem::copy_file(file, file + ".copy");
      std::filesystem::rename(file + ".copy", file);
      flip_bit(file, bit);
      {
        const Warnings warnings;
        Cache cache = Cache::open(options);
        EXPECT_EQ(cache.last_commit(), 2U) << file << " bit " << bit;
        EXPECT_EQ(cache.digest(), golden.at(20));
        EXPECT_NE(warnings.text().find(file_name(file)), std::string::npos)
            << warnings.text() << " should name " << file << " bit " << bit;
      }
      EXPECT_THROW(Cache::resume(options, 3), IoError) << file;
      flip_bit(file, bit);
      // A file that reads short, and one that is gone.
      const std::string whole = real_files().read(file);
      std::filesystem::resize_file(file, whole.size() - 1);
      EXPECT_EQ(Cache::open(options).last_commit(), 2U) << file << " cut short";
      std::filesystem::remove(file);
      {
        // Without its manifest a commit does not exist, and opening clears its folder away: only looked at here.
        const std::vector<std::string> problems = verify_commit(real_files(), directory.path(), 3);
        ASSERT_FALSE(problems.empty()) << file << " removed";
        EXPECT_NE(problems.front().find(file_name(file)), std::string::npos) << problems.front();
      }
      write_file_atomic(real_files(), file, whole);
    }
    EXPECT_EQ(Cache::open(options).last_commit(), 3U);
  }
}

TEST(Commit, ManifestsAndStatesOfAnyBytesAreErrorsOrWhole) {
  Rng rng(kCommitSeed);
  const TempDirectory directory;
  const Rehearsal rehearsal{.steps = 20, .evict_every = 20};
  {
    Cache cache = Cache::open(rehearsal.cache_options(directory.path(), 0.1, StoreKind::kMemory));
    rehearsal.run(cache);
  }
  const std::string folder = commit_folder(directory.path(), 2);
  const std::string manifest = real_files().read(folder + "/MANIFEST.json");
  const std::string state = real_files().read(folder + "/state.bin");
  EXPECT_EQ(parse_manifest(manifest, "m").step, 20U);
  EXPECT_EQ(print_state(parse_state(state, "s")), state);
  for (int round = 0; round < 4000; ++round) {
    std::string text = round % 2 == 0 ? manifest : state;
    for (uint64_t edits = 1 + rng.below(4); edits > 0; --edits) {
      switch (rng.below(3)) {
        case 0: text.resize(rng.below(text.size() + 1)); break;
        case 1:
          if (!text.empty()) {
            text[rng.below(text.size())] = static_cast<char>(rng.next_u32());
          }
          break;
        default: text.insert(rng.below(text.size() + 1), 1 + rng.below(9), '\xff');
      }
    }
    try {
      if (round % 2 == 0) {
        const bool same = text == manifest;
        parse_manifest(text, "m");
        EXPECT_TRUE(same) << "a damaged manifest was read";
      } else {
        parse_state(text, "s");
      }
    } catch (const IoError&) {
    }
  }
}

TEST(Commit, OfAnEarlierVersionSaysHowItsRowsCanBeTakenOver) {
  try {
    parse_state("MSECSTA1 and what that version wrote", "state.bin");
    FAIL() << "it was read";
  } catch (const IoError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("state.bin: written in form 1"), std::string::npos) << text;
    EXPECT_NE(text.find("ec_tool export"), std::string::npos) << text;
  }
}

TEST(Commit, MemoryRowsOfAnyBytesAreErrors) {
  Rng rng(kCommitSeed);
  const TempDirectory directory;
  StoreContext context{.record_bytes = {16}, .files = &real_files()};
  const auto store = open_memory_store(context, "");
  std::vector<std::byte> record(16, std::byte{7});
  for (Id id = 1; id < 50; ++id) {
    const RowWrite row{0, id, record.data()};
    store->write(std::span(&row, 1));
  }
  store->checkpoint(directory.path());
  const std::string path = directory / "rows-0.bin";
  const std::string good = real_files().read(path);
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = good;
    if (round % 2 == 0) {
      bytes.resize(rng.below(bytes.size()));
    } else {
      bytes[rng.below(24)] = static_cast<char>(rng.next_u32());
    }
    std::ofstream(path, std::ios::binary) << bytes;
    if (bytes != good) {
      EXPECT_THROW(open_memory_store(context, directory.path()), IoError);
    }
  }
}

}  // namespace
}  // namespace mstrain::embedding_cache
