// Nothing is lost: damage, full disks, failing disks, power cuts and kills leave the newest complete commit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "embedding_cache/commit.h"
#include "embedding_cache/rehearsal.h"
#include "tests/embedding_cache/hooked_files.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kCommitSeed = 77;

bool long_tests() { return std::getenv("MSTRAIN_LONG_TESTS") != nullptr; }

// Warnings of one scope.
class Warnings {
 public:
  Warnings() {
    before_ = set_log_sink([this](LogLevel, std::string_view text) { lines_.emplace_back(text); });
  }
  ~Warnings() { set_log_sink(before_); }
  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) {
      out += line + "\n";
    }
    return out;
  }

 private:
  LogSink before_;
  std::vector<std::string> lines_;
};

// Digests after each commit of an undisturbed run, by step.
std::map<uint64_t, std::string> golden_digests(const Rehearsal& rehearsal, StoreKind store) {
  std::map<uint64_t, std::string> out;
  const TempDirectory directory;
  Cache cache = Cache::open(rehearsal.cache_options(directory.path(), 0.1, store));
  out[0] = cache.digest();
  for (uint64_t step = rehearsal.commit_every; step <= rehearsal.steps;
       step += rehearsal.commit_every) {
    Rehearsal part = rehearsal;
    part.steps = step;
    part.run(cache);
    out[step] = cache.digest();
  }
  return out;
}

std::vector<CommitId> complete_commits(const std::string& directory) {
  std::vector<CommitId> ids = list_commit_folders(real_files(), directory);
  std::erase_if(ids, [&](CommitId id) { return !has_manifest(real_files(), directory, id); });
  return ids;
}

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

// A store in which every sorted file takes a tenth of a second, and a commit of some twenty of them.
struct SlowCommits {
  TempDirectory directory;
  std::atomic<bool> slow = false;
  std::atomic<bool> stuck = false;
  HookedFiles files{[this](std::string_view what, const std::string& path) {
    if (what == "sync" && path.find("ingest-") != std::string::npos) {
      if (slow) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      stuck.wait(true);
    }
  }};
  Options options;
  uint64_t step = 0;

  SlowCommits() {
    options.directory = directory.path();
    options.files = &files;
    options.store.kind = StoreKind::kRocksdb;
    options.store.write_back_mib = 1;
    options.wait_seconds = 0.7;
    options.tables = {{.name = "t", .host_rows = 300, .segments = {{.width = 16384}}}};
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

TEST(Commit, ClosingWaitsForAStartedOneAsLongAsItGetsOn) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  SlowCommits run;
  {
    Cache cache = Cache::open(run.options);
    run.learn(cache, 0, 300);
    run.slow = true;
    cache.start_commit(1);
  }
  run.slow = false;
  Cache cache = Cache::open(run.options);
  EXPECT_EQ(cache.last_step(), 1U);
  EXPECT_EQ(cache.stats().tables[0].rows, 300U);
}

TEST(Commit, PrefetchWaitsBehindOneAsLongAsItGetsOn) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  SlowCommits run;
  Cache cache = Cache::open(run.options);
  run.learn(cache, 0, 300);
  run.slow = true;
  cache.start_commit(1);
  run.learn(cache, 0, 300);
  run.learn(cache, 1000, 50);  // 3 MiB on their way out, which the commit holds back
  run.learn(cache, 1050, 1);
  run.slow = false;
  EXPECT_EQ(cache.last_commit(), 1U) << "more than a mebibyte goes only after it";
  cache.commit_step(run.step);
}

TEST(Commit, ClosingSaysThatItGivesUpOneThatGetsNowhere) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  SlowCommits run;
  run.options.wait_seconds = 0.2;
  std::string said;
  const LogSink before = set_log_sink([&](LogLevel, std::string_view text) {
    said += text;
    run.stuck = false;
    run.stuck.notify_all();
  });
  {
    Cache cache = Cache::open(run.options);
    run.learn(cache, 0, 300);
    run.stuck = true;
    cache.start_commit(1);
  }
  set_log_sink(before);
  EXPECT_NE(said.find("closing gives up commit 1 of step 1"), std::string::npos) << said;
  Cache cache = Cache::open(run.options);
  EXPECT_EQ(cache.last_step(), 0U);
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

// File operations of a run fail in turn, ours and RocksDB's; what remains is a complete commit of that run.
void fail_in_turn(StoreKind store, const std::string& kind, int64_t stride) {
  const Rehearsal plain{.steps = 9, .commit_every = 3, .vocabulary = 300, .positions = 30};
  Rehearsal rehearsal = plain;
  const auto golden = golden_digests(plain, store);
  int failures = 0;
  for (int64_t n = 0;; n += stride) {
    rehearsal.commit_behind = n / stride % 2 == 1;
    const TempDirectory directory;
    FaultyFiles files(real_files());
    Options options = rehearsal.cache_options(directory.path(), 0.2, store);
    options.files = &files;
    files.reset(kind == "EIO"      ? Faults{.fail_operation = n}
                : kind == "ENOSPC" ? Faults{.enospc_after_bytes = n * 331}
                : kind == "short write"
                    ? Faults{.enospc_after_bytes = n * 331, .short_writes = true}
                    : Faults{.power_off_operation = n});
    bool failed = false;
    {
      const Warnings warnings;  // what could not be removed is only told
      try {
        Cache cache = Cache::open(options);
        rehearsal.run(cache);
      } catch (const IoError& error) {
        failed = true;
        EXPECT_NE(std::string(error.what()).find("cannot"), std::string::npos) << error.what();
      }
    }
    const int64_t operations = files.operations();
    if (kind == "power cut") {
      files.crash();
    }
    files.reset();
    Cache cache = Cache::open(options);
    ASSERT_EQ(cache.digest(), golden.at(cache.last_step())) << kind << " at " << n;
    rehearsal.run(cache);
    ASSERT_EQ(cache.digest(), golden.at(9)) << kind << " at " << n;
    failures += failed ? 1 : 0;
    // A failure while old commits are removed, or while RocksDB tidies up, is not one of the run.
    if (kind == "EIO" ? n > operations : !failed) {
      break;
    }
  }
  EXPECT_GT(failures, 2) << kind;
}

TEST(Commit, FailingDiskLeavesTheNewestCompleteCommit) {
  for (const char* kind : {"EIO", "ENOSPC", "short write", "power cut"}) {
    fail_in_turn(StoreKind::kMemory, kind, long_tests() ? 1 : 5);
  }
}

TEST(Commit, FailingDiskBelowRocksdb) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  const auto stride = [](int64_t few) { return long_tests() ? 1 : few; };
  fail_in_turn(StoreKind::kRocksdb, "EIO", stride(17));
  fail_in_turn(StoreKind::kRocksdb, "power cut", stride(17));
  // RocksDB may look for space for five seconds before it closes.
  fail_in_turn(StoreKind::kRocksdb, "ENOSPC", stride(97));
  fail_in_turn(StoreKind::kRocksdb, "short write", stride(61));
}

// Reads that give fewer bytes than the file has, one after another: an error that says so, or the commit before; never other rows.
TEST(Commit, ShortReadsAreNoticed) {
  for (const StoreKind store : stores()) {
    const Rehearsal rehearsal{.steps = 9, .commit_every = 3, .vocabulary = 300, .positions = 30};
    const auto golden = golden_digests(rehearsal, store);
    const TempDirectory directory;
    Options options = rehearsal.cache_options(directory.path(), 0.2, store);
    std::atomic<int64_t> left = -1;
    HookedFiles files(
        [](std::string_view, const std::string&) {},
        [&](const std::string&, size_t size) { return left-- == 0 ? size / 2 : size; });
    options.files = &files;
    {
      Cache cache = Cache::open(options);
      rehearsal.run(cache);
    }
    int noticed = 0;
    for (int64_t n = 0;; n += long_tests() || store == StoreKind::kMemory ? 1 : 7) {
      left = n;
      const Warnings warnings;
      try {
        Cache cache = Cache::open(options);
        ASSERT_EQ(cache.digest(), golden.at(cache.last_step())) << "read " << n;
        noticed += warnings.text().empty() ? 0 : 1;
      } catch (const IoError&) {
        ++noticed;
      }
      if (left >= 0) {
        break;
      }
    }
    EXPECT_GT(noticed, 2) << static_cast<int>(store);
    left = -1;
    Cache cache = Cache::open(options);
    EXPECT_EQ(cache.digest(), golden.at(9));
  }
}

constexpr const char* kChild = "MSTRAIN_EC_CHILD";  // "<directory> <store> <operation>"

const Rehearsal kKilled{.steps = 9, .commit_every = 3, .vocabulary = 300, .positions = 30};

// Not a test by itself: what KillAtEveryFileOperation runs in a process of its own (RocksDB's threads do not survive a fork).
TEST(Commit, DISABLED_TrainUntilKilled) {
  const char* arguments = std::getenv(kChild);
  ASSERT_NE(arguments, nullptr) << "run by another test";
  std::istringstream in(arguments);
  std::string directory;
  int store = 0;
  int64_t operation = 0;
  in >> directory >> store >> operation;
  std::atomic<int64_t> left = operation;
  HookedFiles files([&](std::string_view, const std::string&) {
    if (left-- == 0) {
      ::raise(SIGKILL);
    }
  });
  Options options = kKilled.cache_options(directory, 0.2, static_cast<StoreKind>(store));
  options.files = &files;
  Cache cache = Cache::open(options);
  kKilled.run(cache);
}

// True where the child ended by itself, false where it was killed.
bool trains_to_its_end(const std::string& directory, StoreKind store, int64_t operation) {
  const std::string variable =
      fmt::format("{}={} {} {}", kChild, directory, static_cast<int>(store), operation);
  std::vector<std::string> arguments{"child", "--gtest_filter=Commit.DISABLED_TrainUntilKilled",
                                     "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  std::string owned = variable;
  char* environment[] = {owned.data(), nullptr};
  pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv.data(), environment), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0)
      << "operation " << operation;
  return WIFEXITED(status);
}

TEST(Commit, KillAtEveryFileOperationOfACommit) {
  for (const StoreKind store : stores()) {
    const auto golden = golden_digests(kKilled, store);
    int64_t n = 0;
    const int64_t stride = long_tests() ? 1 : store == StoreKind::kMemory ? 2 : 11;
    for (bool done = false; !done; n += stride) {
      const TempDirectory directory;
      done = trains_to_its_end(directory.path(), store, n);
      Cache cache = Cache::open(kKilled.cache_options(directory.path(), 0.2, store));
      ASSERT_EQ(cache.digest(), golden.at(cache.last_step())) << "operation " << n;
      kKilled.run(cache);
      ASSERT_EQ(cache.digest(), golden.at(9)) << "operation " << n;
    }
    EXPECT_GT(n, 50) << "operations of three commits";
  }
}

}  // namespace
}  // namespace mstrain::embedding_cache
