// Failing disks, short reads and kills leave the newest complete commit of the run.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "tests/amount.h"
#include "tests/embedding_cache/commits.h"
#include "tests/embedding_cache/hooked_files.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

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
    fail_in_turn(StoreKind::kMemory, kind, stride(5));
  }
}

TEST(Commit, FailingDiskBelowRocksdb) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  const auto every = [](int64_t few) { return long_tests() ? 1 : few; };
  fail_in_turn(StoreKind::kRocksdb, "EIO", every(17));
  fail_in_turn(StoreKind::kRocksdb, "power cut", every(17));
  // RocksDB may look for space for five seconds before it closes.
  fail_in_turn(StoreKind::kRocksdb, "ENOSPC", every(97));
  fail_in_turn(StoreKind::kRocksdb, "short write", every(61));
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
    const int64_t every = stride(store == StoreKind::kMemory ? 2 : 11);
    for (bool done = false; !done; n += every) {
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
