#include "core/data/source_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/core/data/scratch.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const std::string& source,
                               const std::vector<std::string>& extensions = {}) {
  std::vector<std::string> out;
  for (const SourceFile& file : find_source_files(real_files(), source, extensions)) {
    EXPECT_EQ(static_cast<uint64_t>(file.bytes), std::filesystem::file_size(file.path));
    out.push_back(file.name);
  }
  return out;
}

class SourceFiles : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"b.txt", "a/x.h", "a/y.cc", "a/deep/z.h", "vector", ".git/config", "a/.hidden"}) {
      scratch.write(name, name);
    }
    scratch.write("empty.txt", "");
  }
  std::string message(const std::string& source, const std::vector<std::string>& extensions = {}) {
    return message_of<IoError>([&] { names(source, extensions); });
  }
  Scratch scratch;
};

TEST_F(SourceFiles, AFolderIsItsFilesAtAnyDepthInOrder) {
  EXPECT_THAT(names(scratch.root()),
              ElementsAre("a/deep/z.h", "a/x.h", "a/y.cc", "b.txt", "vector"));
  EXPECT_THAT(names(scratch.root() + "/"), testing::SizeIs(5));
  EXPECT_THAT(names(scratch.root(), {"h", ".txt"}), ElementsAre("a/deep/z.h", "a/x.h", "b.txt"));
  EXPECT_THAT(names(scratch.root(), {""}), ElementsAre("vector"));
}

TEST_F(SourceFiles, AFileIsItself) {
  EXPECT_THAT(names(scratch.path("a/x.h"), {"txt"}), ElementsAre("x.h"));
}

TEST_F(SourceFiles, PatternsMatchComponents) {
  EXPECT_THAT(names(scratch.path("a/*.h")), ElementsAre("x.h"));
  EXPECT_THAT(names(scratch.path("*/x.?")), ElementsAre("a/x.h"));
  EXPECT_THAT(names(scratch.path("**/*.h")), ElementsAre("a/deep/z.h", "a/x.h"));
  EXPECT_THAT(names(scratch.path("a/**")), ElementsAre("deep/z.h", "x.h", "y.cc"));
  EXPECT_THAT(names(scratch.path("[ab]*")), ElementsAre("a/deep/z.h", "a/x.h", "a/y.cc", "b.txt"));
  EXPECT_THAT(names(scratch.path("a/[xy].*")), ElementsAre("x.h", "y.cc"));
}

TEST_F(SourceFiles, LinksAreFollowedButNotInCircles) {
  std::filesystem::create_directory_symlink(scratch.root(), scratch.path("a/up"));
  std::filesystem::create_symlink("nowhere", scratch.path("a/dangling"));
  std::filesystem::create_symlink(scratch.path("b.txt"), scratch.path("a/link.txt"));
  EXPECT_THAT(names(scratch.root()),
              ElementsAre("a/deep/z.h", "a/link.txt", "a/x.h", "a/y.cc", "b.txt", "vector"));
  EXPECT_THAT(names(scratch.path("**/z.h")), testing::Contains("a/deep/z.h"));
  EXPECT_THAT(names(scratch.path("*")), testing::Contains("a/deep/z.h"));
}

TEST_F(SourceFiles, WhatIsMissingIsNamedWithTheNearestName) {
  EXPECT_EQ(message(scratch.path("b.tx")), scratch.path("b.tx") +
                                               ": no such file or folder; did you mean " +
                                               scratch.path("b.txt") + "?");
  EXPECT_THAT(message(scratch.path("a/dep/z.h")),
              testing::AllOf(HasSubstr("(" + scratch.path("a/dep") + " is missing)"),
                             HasSubstr("did you mean " + scratch.path("a/deep") + "?")));
  EXPECT_THAT(message(scratch.path("dep/*.h")), HasSubstr("no such file or folder"));
  EXPECT_THAT(message(scratch.path("qqqqqqqqqqqq")), testing::EndsWith("no such file or folder"));
}

TEST_F(SourceFiles, NothingToReadIsAnError) {
  EXPECT_THAT(message(scratch.path("empty.txt")), HasSubstr("the file is empty"));
  ASSERT_EQ(mkfifo(scratch.path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message(scratch.path("pipe")), HasSubstr("is a pipe or a device"));
  EXPECT_THAT(message(scratch.path("*.zip")), HasSubstr("no file that is not empty matches"));
  EXPECT_THAT(message(scratch.root(), {"zip"}),
              HasSubstr("the folder holds no file with extension zip"));
  EXPECT_THROW(names(""), Error);
}

}  // namespace
}  // namespace mstrain
