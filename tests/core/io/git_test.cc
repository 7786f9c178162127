#include "core/io/git.h"

#include <gtest/gtest.h>

#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

// Layouts as gitrepository-layout(5) describes them.
TEST(Git, FindsTheCommitOfAFolder) {
  const TemporaryFolder folder;
  FileSystem& files = real_files();
  const auto write = [&](const std::string& name, const std::string& text) {
    files.create_directories(parent_path(folder / name));
    write_file_atomic(files, folder / name, text);
  };
  const std::string a(40, 'a');
  const std::string b(40, 'b');
  const std::string c(40, 'c');
  write("work/.git/HEAD", "ref: refs/heads/main\n");
  files.create_directories(folder / "work/deep/down");
  EXPECT_EQ(git_commit(files, folder / "work"), std::nullopt);  // no commit yet
  write("work/.git/packed-refs", "# pack-refs with: peeled\n" + b + " refs/heads/main\n");
  EXPECT_EQ(git_commit(files, folder / "work/deep/down"), b);
  write("work/.git/refs/heads/main", a + "\n");  // newer than what is packed
  EXPECT_EQ(git_commit(files, folder / "work/deep/down"), a);
  write("work/.git/HEAD", c + "\n");  // of no branch
  EXPECT_EQ(git_commit(files, folder / "work"), c);

  write("linked/.git", "gitdir: " + (folder / "work/.git/worktrees/linked") + "\n");
  write("work/.git/worktrees/linked/HEAD", "ref: refs/heads/other\n");
  write("work/.git/worktrees/linked/commondir", "../..\n");
  write("work/.git/refs/heads/other", b + "\n");
  EXPECT_EQ(git_commit(files, folder / "linked"), b);
  write("work/.git/HEAD", "no reference\n");
  EXPECT_EQ(git_commit(files, folder / "work"), std::nullopt);
}

}  // namespace
}  // namespace mstrain
