// Nothing is lost: damage, full disks, failing disks, power cuts and kills leave the newest complete commit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "embedding_cache/commit.h"
#include "embedding_cache/rehearsal.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kSeed = 77;

std::vector<StoreKind> stores() {
  return has_rocksdb() ? std::vector{StoreKind::kMemory, StoreKind::kRocksdb}
                       : std::vector{StoreKind::kMemory};
}

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
  EXPECT_EQ(list_commit_folders(real_files(), directory.path()), (std::vector<CommitId>{5, 6}));
  // Prepared, but not confirmed: nothing goes yet.
  const CommitId id = cache.prepare(60);
  EXPECT_EQ(list_commit_folders(real_files(), directory.path()), (std::vector<CommitId>{5, 6, 7}));
  cache.commit(id);
  EXPECT_EQ(list_commit_folders(real_files(), directory.path()), (std::vector<CommitId>{6, 7}));
}

// One flipped bit in each file of the newest commit: named, and the commit before is used; asked for by id, it is an error.
TEST(Commit, FlippedBitIsNamedAndTheCommitBeforeIsUsed) {
  Rng rng(kSeed);
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
  Rng rng(kSeed);
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
  Rng rng(kSeed);
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

// Every file operation of a run fails in turn; what remains is a complete commit of that run.
TEST(Commit, FailingDiskLeavesTheNewestCompleteCommit) {
  const Rehearsal rehearsal{.steps = 9, .commit_every = 3, .vocabulary = 300, .positions = 30};
  const auto golden = golden_digests(rehearsal, StoreKind::kMemory);
  for (const char* kind : {"EIO", "ENOSPC", "short write", "power cut"}) {
    int failures = 0;
    const int64_t stride = long_tests() ? 1 : 3;
    for (int64_t n = 0;; n += kind[1] == 'N' ? 997 * stride : stride) {
      const TempDirectory directory;
      FaultyFiles files(real_files());
      Options options = rehearsal.cache_options(directory.path(), 0.2, StoreKind::kMemory);
      options.files = &files;
      const std::string_view name = kind;
      files.reset(name == "EIO"      ? Faults{.fail_operation = n}
                  : name == "ENOSPC" ? Faults{.enospc_after_bytes = n}
                  : name == "short write"
                      ? Faults{.enospc_after_bytes = n * 331, .short_writes = true}
                      : Faults{.power_off_operation = n});
      bool failed = false;
      const Warnings warnings;  // what could not be removed is only told
      try {
        Cache cache = Cache::open(options);
        rehearsal.run(cache);
      } catch (const IoError& error) {
        failed = true;
        EXPECT_NE(std::string(error.what()).find("cannot"), std::string::npos) << error.what();
      }
      if (name == "power cut") {
        files.crash();
      }
      files.reset();
      Cache cache = Cache::open(options);
      ASSERT_EQ(cache.digest(), golden.at(cache.last_step())) << kind << " at " << n;
      rehearsal.run(cache);
      ASSERT_EQ(cache.digest(), golden.at(9)) << kind << " at " << n;
      failures += failed ? 1 : 0;
      if (!failed && (name != "EIO" || n >= 400)) {
        break;
      }
    }
    EXPECT_GT(failures, 3) << kind;
  }
}

// The same below RocksDB: its own reads, writes, syncs, renames and links.
TEST(Commit, FailingDiskBelowRocksdb) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  const Rehearsal rehearsal{.steps = 9, .commit_every = 3, .vocabulary = 300, .positions = 30};
  const auto golden = golden_digests(rehearsal, StoreKind::kRocksdb);
  for (const int error_number : {EIO, ENOSPC}) {
    int failures = 0;
    const int64_t stride = long_tests() ? 1 : 31;
    for (int64_t n = 0;; n += stride) {
      const TempDirectory directory;
      std::atomic<int64_t> operation = 0;
      std::atomic<bool> armed = true;
      Options options = rehearsal.cache_options(directory.path(), 0.2, StoreKind::kRocksdb);
      options.store.io_hook = [&](std::string_view, const std::string&, uint64_t) {
        return armed && operation++ >= n ? error_number : 0;
      };
      bool failed = false;
      try {
        Cache cache = Cache::open(options);
        rehearsal.run(cache);
      } catch (const IoError&) {
        failed = true;
      }
      armed = false;
      options.store.io_hook = nullptr;
      Cache cache = Cache::open(options);
      ASSERT_EQ(cache.digest(), golden.at(cache.last_step())) << error_number << " at " << n;
      rehearsal.run(cache);
      ASSERT_EQ(cache.digest(), golden.at(9)) << error_number << " at " << n;
      failures += failed ? 1 : 0;
      if (!failed) {
        break;
      }
    }
    EXPECT_GT(failures, 2);
  }
}

// Power is cut at some operation: what RocksDB wrote since its last sync of a file is gone.
TEST(Commit, PowerCutBelowRocksdb) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  const Rehearsal rehearsal{.steps = 9, .commit_every = 3, .vocabulary = 300, .positions = 30};
  const auto golden = golden_digests(rehearsal, StoreKind::kRocksdb);
  const int64_t stride = long_tests() ? 1 : 29;
  for (int64_t n = 0;; n += stride) {
    const TempDirectory directory;
    FaultyFiles files(real_files());
    std::mutex mutex;
    int64_t operation = 0;
    bool armed = true;
    struct File {
      uint64_t written = 0;
      uint64_t synced = 0;
    };
    std::map<std::string, File> written;  // by RocksDB, by path; hard links are the same file
    Options options = rehearsal.cache_options(directory.path(), 0.2, StoreKind::kRocksdb);
    options.files = &files;
    options.store.io_hook = [&](std::string_view what, const std::string& path, uint64_t bytes) {
      const std::lock_guard lock(mutex);
      if (!armed) {
        return 0;
      }
      if (operation++ >= n) {
        return EIO;
      }
      if (what == "write") {
        written[path].written += bytes;
      } else if (what == "sync") {
        written[path].synced = written[path].written;
      }
      return 0;
    };
    bool failed = false;
    try {
      Cache cache = Cache::open(options);
      rehearsal.run(cache);
    } catch (const IoError&) {
      failed = true;
    }
    armed = false;
    for (const auto& [path, file] : written) {
      if (file.synced < file.written && std::filesystem::exists(path) &&
          std::filesystem::file_size(path) > file.synced) {
        std::filesystem::resize_file(path, file.synced);
      }
    }
    files.crash();
    options.store.io_hook = nullptr;
    Cache cache = Cache::open(options);
    ASSERT_EQ(cache.digest(), golden.at(cache.last_step())) << n;
    rehearsal.run(cache);
    ASSERT_EQ(cache.digest(), golden.at(9)) << n;
    if (!failed) {
      break;
    }
  }
}

// Our own file operations, with a kill before the n-th.
class KillingFiles final : public FileSystem {
 public:
  explicit KillingFiles(int64_t n) : left_(n) {}
  std::string read(const std::string& p, uint64_t m) override {
    return hit(), real_files().read(p, m);
  }
  std::unique_ptr<MappedFile> map(const std::string& p) override {
    return hit(), real_files().map(p);
  }
  std::unique_ptr<WritableFile> open(const std::string& p, WriteMode m) override {
    hit();
    return std::make_unique<File>(*this, real_files().open(p, m));
  }
  bool exists(const std::string& p) override { return real_files().exists(p); }
  bool is_directory(const std::string& p) override { return real_files().is_directory(p); }
  std::vector<std::string> list(const std::string& p) override {
    return hit(), real_files().list(p);
  }
  uint64_t file_size(const std::string& p) override { return real_files().file_size(p); }
  uint64_t free_space(const std::string& p) override { return real_files().free_space(p); }
  void create_directories(const std::string& p) override {
    hit(), real_files().create_directories(p);
  }
  void rename(const std::string& a, const std::string& b) override {
    hit(), real_files().rename(a, b);
  }
  bool exchange(const std::string& a, const std::string& b) override {
    return hit(), real_files().exchange(a, b);
  }
  void truncate(const std::string& p, uint64_t n) override { hit(), real_files().truncate(p, n); }
  void remove(const std::string& p) override { hit(), real_files().remove(p); }
  void remove_all(const std::string& p) override { hit(), real_files().remove_all(p); }
  void sync_directory(const std::string& p) override { hit(), real_files().sync_directory(p); }
  std::unique_ptr<FileLock> try_lock(const std::string& p) override {
    return real_files().try_lock(p);
  }
  void hit() {
    if (left_-- == 0) {
      ::raise(SIGKILL);
    }
  }

 private:
  class File final : public WritableFile {
   public:
    File(KillingFiles& files, std::unique_ptr<WritableFile> inner)
        : files_(files), inner_(std::move(inner)) {}
    using WritableFile::append;
    void append(std::span<const std::byte> bytes) override {
      inner_->append(bytes.first(bytes.size() / 2));  // killed half-way through a write
      files_.hit();
      inner_->append(bytes.subspan(bytes.size() / 2));
    }
    void sync() override { files_.hit(), inner_->sync(); }
    void close() override { files_.hit(), inner_->close(); }

   private:
    KillingFiles& files_;
    std::unique_ptr<WritableFile> inner_;
  };
  std::atomic<int64_t> left_;
};

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
  KillingFiles files(operation);
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
    for (bool done = false; !done; n += long_tests() ? 1 : 2) {
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
