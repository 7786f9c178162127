#include "core/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "core/base/missing_file.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

int errno_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const IoError& error) {
    return error.error_number();
  }
  return 0;
}

TEST(Files, WritesAppendsAndReads) {
  const TemporaryFolder folder;
  FileSystem& files = real_files();
  const std::string path = folder / "a.bin";
  {
    auto file = files.open(path, WriteMode::kTruncate);
    file->append("hello ");
    file->append(std::string_view("wor\0ld", 6));
    file->sync();
    file->close();
    EXPECT_EQ(errno_of([&] { file->append("x"); }), EBADF);
    EXPECT_EQ(errno_of([&] { file->sync(); }), EBADF);
  }
  EXPECT_EQ(files.read(path), std::string("hello wor\0ld", 12));
  files.open(path, WriteMode::kAppend)->append("!");
  EXPECT_EQ(files.file_size(path), 13U);
  EXPECT_EQ(as_text(files.map(path)->bytes()), std::string("hello wor\0ld!", 13));
  files.truncate(path, 5);
  EXPECT_EQ(files.read(path), "hello");
  files.open(path, WriteMode::kTruncate)->append("new");
  EXPECT_EQ(files.read(path), "new");
}

TEST(Files, ReadHonoursItsLimit) {
  const TemporaryFolder folder;
  FileSystem& files = real_files();
  const std::string path = folder / "a";
  files.open(path, WriteMode::kTruncate)->append("12345");
  EXPECT_EQ(files.read(path, 5), "12345");
  EXPECT_EQ(errno_of([&] { files.read(path, 4); }), EFBIG);
  EXPECT_GT(files.read("/proc/self/status").size(), 100U);  // states size 0
  EXPECT_EQ(errno_of([&] { files.read("/dev/zero", 100000); }), EFBIG);
}

TEST(Files, EmptyFileMapsToNothing) {
  const TemporaryFolder folder;
  real_files().open(folder / "empty", WriteMode::kTruncate)->close();
  EXPECT_TRUE(real_files().map(folder / "empty")->bytes().empty());
  EXPECT_EQ(real_files().read(folder / "empty"), "");
}

TEST(Files, DirectoriesListSortedAndRemove) {
  const TemporaryFolder folder;
  FileSystem& files = real_files();
  files.create_directories(folder / "x/y/z");
  files.create_directories(folder / "x/y/z");
  for (const char* name : {"b", "a", "c"}) {
    files.open(folder / ("x/" + std::string(name)), WriteMode::kTruncate)->append(name);
  }
  EXPECT_THAT(files.list(folder / "x"), ElementsAre("a", "b", "c", "y"));
  files.rename(folder / "x/a", folder / "x/b");
  EXPECT_EQ(files.read(folder / "x/b"), "a");
  EXPECT_TRUE(files.is_directory(folder / "x/y"));
  EXPECT_FALSE(files.is_directory(folder / "x/b"));
  EXPECT_FALSE(files.exists(folder / "x/a"));
  EXPECT_FALSE(files.exists(folder / "x/b/below-a-file"));
  files.remove(folder / "x/b");
  EXPECT_EQ(errno_of([&] { files.remove(folder / "x/y"); }), ENOTEMPTY);
  files.sync_directory(folder / "x");
  files.remove_all(folder / "x");
  files.remove_all(folder / "x");
  EXPECT_FALSE(files.exists(folder / "x"));
  EXPECT_GT(files.free_space(folder.path()), 0U);
}

TEST(Files, ExchangeSwapsFolders) {
  const TemporaryFolder folder;
  FileSystem& files = real_files();
  for (const char* name : {"a", "b"}) {
    files.create_directories(folder / name);
    files.open(folder / (std::string(name) + "/f"), WriteMode::kTruncate)->append(name);
  }
  if (!files.exchange(folder / "a", folder / "b")) {
    GTEST_SKIP() << "this file system cannot exchange entries";
  }
  EXPECT_EQ(files.read(folder / "a/f"), "b");
  EXPECT_EQ(files.read(folder / "b/f"), "a");
}

TEST(Files, ErrorsNameThePathAndTheReason) {
  FileSystem& files = real_files();
  const std::string missing = "/nonexistent-folder/file";
  const std::vector<std::function<void()>> calls = {
      [&] { files.read(missing); },          [&] { files.map(missing); },
      [&] { files.list(missing); },          [&] { files.open(missing, WriteMode::kTruncate); },
      [&] { files.file_size(missing); },     [&] { files.free_space(missing); },
      [&] { files.rename(missing, "/x"); },  [&] { files.truncate(missing, 0); },
      [&] { files.remove(missing); },        [&] { files.sync_directory(missing); },
      [&] { (void)files.try_lock(missing); }};
  for (const auto& call : calls) {
    try {
      call();
      FAIL() << "no error";
    } catch (const IoError& error) {
      EXPECT_EQ(error.error_number(), ENOENT);
      EXPECT_THAT(error.what(), testing::StartsWith(missing + ": cannot "));
      EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
    }
  }
  EXPECT_EQ(errno_of([&] { files.map("/tmp"); }), EISDIR);
}

TEST(Files, PipesWithoutAWriterAreErrorsAndOthersAreRead) {
  const TemporaryFolder folder;
  FileSystem& files = real_files();
  const std::string named = folder / "pipe";
  ASSERT_EQ(::mkfifo(named.c_str(), 0600), 0);
  EXPECT_THAT(
      [&] { files.read(named); },
      testing::ThrowsMessage<IoError>(HasSubstr("pipe: is a pipe into which nobody writes")));
  EXPECT_THAT([&] { files.map(named); },
              testing::ThrowsMessage<IoError>(HasSubstr("pipe: is no regular file")));
  std::thread writer([&] { files.open(named, WriteMode::kTruncate)->append("late"); });
  EXPECT_EQ(files.read(named), "late");
  writer.join();

  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::thread slow([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_EQ(::write(ends[1], "unnamed", 7), 7);
    ::close(ends[1]);
  });
  EXPECT_EQ(files.read("/dev/fd/" + std::to_string(ends[0])), "unnamed");
  slow.join();
  ::close(ends[0]);
}

TEST(Files, LockExcludesThisProcessAndOthersAndDiesWithItsHolder) {
  const TemporaryFolder folder;
  const std::string path = folder / "LOCK";
  auto lock = real_files().try_lock(path);
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(real_files().try_lock(path), nullptr);
  lock.reset();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto held = real_files().try_lock(path);
    const char state = held != nullptr ? 'y' : 'n';
    (void)!::write(ready[1], &state, 1);
    pause();
    _exit(0);
  }
  char state = 0;
  ASSERT_EQ(read(ready[0], &state, 1), 1);
  EXPECT_EQ(state, 'y');
  EXPECT_EQ(real_files().try_lock(path), nullptr);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NE(real_files().try_lock(path), nullptr);
  close(ready[0]);
  close(ready[1]);
}

TEST(Files, AtomicWriteReplacesAndLeavesNoTemporary) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "a", "one");
  write_file_atomic(real_files(), folder / "a", "two");
  EXPECT_EQ(real_files().read(folder / "a"), "two");
  EXPECT_THAT(real_files().list(folder.path()), ElementsAre("a"));
}

TEST(Files, AtomicWriteGoesToWhatALinkPointsAt) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d");
  write_file_atomic(real_files(), folder / "d/a", "one");
  std::filesystem::create_symlink("d/a", folder / "link");
  write_file_atomic(real_files(), folder / "link", "two");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(real_files().read(folder / "d/a"), "two");
  EXPECT_THAT(real_files().list(folder / "d"), ElementsAre("a"));
  std::filesystem::create_symlink("d/b", folder / "ahead");
  std::filesystem::create_symlink("ahead", folder / "twice");
  write_file_atomic(real_files(), folder / "twice", "three");
  EXPECT_EQ(real_files().read(folder / "d/b"), "three");
}

TEST(Files, LinksThatLeadNowhereAreNamed) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_THAT(message_of<IoError>([&] { write_file_atomic(real_files(), folder / "circle", "x"); }),
              HasSubstr("circle: is a link that leads to itself"));
  std::filesystem::create_symlink("nowhere", folder / "link");
  EXPECT_EQ(message_of<IoError>([&] { real_files().create_directories(folder / "link/a"); }),
            folder / "link" + ": the link leads to " + folder / "nowhere, where nothing is");
  EXPECT_EQ(message_of<IoError>([&] { check_exists(real_files(), folder / "link"); }),
            folder / "link" + ": no such file or folder; the link leads to " +
                folder / "nowhere, where nothing is");
}

TEST(Files, AtomicWriteReplacesNoPipeAndNoFolder) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<IoError>([&] { write_file_atomic(real_files(), folder / "pipe", "x"); }),
              HasSubstr("pipe: is a device or a pipe"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_THAT(message_of<IoError>([&] { write_file_atomic(real_files(), folder / "", "x"); }),
              HasSubstr(": is a folder; expected a file"));
}

TEST(Paths, SplitAndJoin) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(file_name("x/y.z"), "y.z");
  EXPECT_EQ(file_name("x/"), "x");
  EXPECT_NE(temporary_name("a"), temporary_name("a"));
  EXPECT_TRUE(temporary_name("d/a/").starts_with("d/a.tmp-"));
}

TEST(Paths, PlainNamesStayInTheirFolder) {
  EXPECT_TRUE(is_plain_name("model-00001-of-00002.safetensors"));
  for (std::string_view name : {"", ".", "..", "a/b", "/a", "a\\b", "../a", "a\n"}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
  }
  EXPECT_FALSE(is_plain_name(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace mstrain
