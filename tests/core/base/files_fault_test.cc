#include "core/base/files_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "core/base/error.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::ElementsAre;

void write(FileSystem& files, const std::string& path, std::string_view text, bool sync) {
  const auto file = files.open(path, WriteMode::kTruncate);
  file->append(text);
  if (sync) {
    file->sync();
  }
  file->close();
}

TEST(FaultyFiles, FailsTheChosenOperationOnly) {
  const TemporaryFolder folder;
  FaultyFiles files(real_files(), {.fail_operation = 1});
  EXPECT_FALSE(files.exists(folder / "a"));
  EXPECT_THROW(files.open(folder / "a", WriteMode::kTruncate), IoError);
  EXPECT_FALSE(real_files().exists(folder / "a"));
  write(files, folder / "a", "x", true);
  EXPECT_EQ(real_files().read(folder / "a"), "x");
  EXPECT_EQ(files.operations(), 6);
}

TEST(FaultyFiles, FullDiskTakesNothingOrHalf) {
  const TemporaryFolder folder;
  FaultyFiles files(real_files(), {.enospc_after_bytes = 5});
  try {
    const auto file = files.open(folder / "a", WriteMode::kTruncate);
    file->append("1234");
    file->append("5678");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.error_number(), ENOSPC);
  }
  EXPECT_EQ(real_files().read(folder / "a"), "1234");
  files.reset({.enospc_after_bytes = 3, .short_writes = true});
  EXPECT_THROW(files.open(folder / "a", WriteMode::kAppend)->append("abcd"), IoError);
  EXPECT_EQ(real_files().read(folder / "a"), "1234ab");
}

TEST(FaultyFiles, CrashLosesWhatWasNotSynced) {
  const TemporaryFolder folder;
  FaultyFiles files(real_files());
  write(files, folder / "kept", "12", true);
  files.sync_directory(folder.path());
  {
    const auto file = files.open(folder / "kept", WriteMode::kAppend);
    file->append("lost");
  }
  write(files, folder / "unnamed", "data synced, name not", true);
  write(files, folder / "empty", "name synced, data not", false);
  files.create_directories(folder / "d/e/f");
  files.crash();
  EXPECT_EQ(real_files().read(folder / "kept"), "12");
  EXPECT_THAT(real_files().list(folder.path()), ElementsAre("kept"));
  write(files, folder / "empty", "name synced, data not", false);
  files.sync_directory(folder.path());
  files.crash();
  EXPECT_EQ(real_files().read(folder / "empty"), "");
}

TEST(FaultyFiles, CrashUndoesRenamesThatWereNotSynced) {
  const TemporaryFolder folder;
  FaultyFiles files(real_files());
  files.create_directories(folder / "t");
  files.sync_directory(folder.path());
  write(files, folder / "t/f", "1", true);
  files.sync_directory(folder / "t");
  files.rename(folder / "t", folder / "final");
  files.crash();
  EXPECT_THAT(real_files().list(folder.path()), ElementsAre("t"));
  files.rename(folder / "t", folder / "final");
  files.sync_directory(folder.path());
  files.crash();
  EXPECT_THAT(real_files().list(folder / "final"), ElementsAre("f"));
  // A name that was never synced inside a folder that was renamed meanwhile.
  write(files, folder / "final/g", "2", true);
  files.rename(folder / "final", folder / "last");
  files.sync_directory(folder.path());
  files.crash();
  EXPECT_THAT(real_files().list(folder / "last"), ElementsAre("f"));
}

TEST(FaultyFiles, CrashUndoesExchanges) {
  const TemporaryFolder folder;
  FaultyFiles files(real_files());
  for (const char* name : {"a", "b"}) {
    files.create_directories(folder / name);
    write(files, folder / (std::string(name) + "/" + name), name, true);
    files.sync_directory(folder / name);
  }
  files.sync_directory(folder.path());
  if (!files.exchange(folder / "a", folder / "b")) {
    GTEST_SKIP() << "this file system cannot exchange entries";
  }
  EXPECT_THAT(real_files().list(folder / "a"), ElementsAre("b"));
  files.crash();
  EXPECT_THAT(real_files().list(folder / "a"), ElementsAre("a"));
  files.reset({.no_exchange = true});
  EXPECT_FALSE(files.exchange(folder / "a", folder / "b"));
}

TEST(AtomicWrite, EveryFailPointLeavesTheOldOrTheNewBytes) {
  for (const bool power_off : {false, true}) {
    for (int64_t n = 0;; ++n) {
      const TemporaryFolder folder;
      write_file_atomic(real_files(), folder / "a", "old");
      FaultyFiles files(real_files(),
                        power_off ? Faults{.power_off_operation = n} : Faults{.fail_operation = n});
      bool failed = false;
      try {
        write_file_atomic(files, folder / "a", "new");
      } catch (const IoError&) {
        failed = true;
      }
      files.crash();
      const std::string now = real_files().read(folder / "a");
      EXPECT_TRUE(now == "new" || (failed && now == "old")) << n << ": " << now;
      if (!failed) {
        EXPECT_GT(n, 5);
        break;
      }
    }
  }
}

TEST(AtomicWrite, FullDiskLeavesTheOldBytesAndNoTemporary) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "a", "old");
  FaultyFiles files(real_files(), {.enospc_after_bytes = 2});
  EXPECT_THROW(write_file_atomic(files, folder / "a", "new"), IoError);
  EXPECT_EQ(real_files().read(folder / "a"), "old");
  EXPECT_THAT(real_files().list(folder.path()), ElementsAre("a"));
}

}  // namespace
}  // namespace mstrain
