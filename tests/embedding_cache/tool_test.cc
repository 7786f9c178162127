// ec_tool from outside, as people run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>

#include "core/base/error.h"
#include "embedding_cache/rehearsal.h"
#include "tests/amount.h"
#include "tests/embedding_cache/small_table.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

using testing::HasSubstr;

struct Result {
  int status;
  std::string output;  // both streams
};

Result tool(const std::string& arguments) {
  const std::string command = std::string(MSTRAIN_EC_TOOL) + " " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) {
    output += static_cast<char>(c);
  }
  return {WEXITSTATUS(::pclose(pipe)), output};
}

// After a run has gone back to its first commit, steps do not tell what changed since the second.
TEST(Tool, ExportsNoDifferenceBetweenLinesOfCommits) {
  const TempDirectory directory;
  const TempDirectory out;
  const Rehearsal rehearsal{.steps = 20};
  const Options options = rehearsal.cache_options(directory.path(), 0.2, StoreKind::kAuto);
  {
    Cache cache = Cache::open(options);
    rehearsal.run(cache);
  }
  {
    Cache cache = Cache::resume(options, 1);
    cache.commit(cache.prepare(30), std::vector<CommitId>{1, 2});
  }
  real_files().create_directories(out.path());
  const std::string exported = "export " + directory.path() + " " + (out / "delta");
  const Result across = tool(exported + " --since 2");
  EXPECT_EQ(across.status, 1);
  EXPECT_THAT(across.output, HasSubstr("--since 2: commit 3 does not come from it"));
  for (const char* along : {" --since 1", " --commit 2 --since 1"}) {
    const Result result = tool(exported + along);
    EXPECT_EQ(result.status, 0) << result.output;
  }
}

TEST(Tool, ExportsWhatWasLoadedAfterACommit) {
  const TempDirectory directory;
  const TempDirectory out;
  {
    Cache cache = Cache::open(one_table(directory.path(), StoreKind::kAuto));
    learn(cache, 0, std::vector<Id>{1, 40}, 5);
    const CommitId first = cache.commit_step(5);
    cache.load_weights(0, std::vector<Id>{2, 3, 50}, std::vector<float>(6, 3.0F));
    learn(cache, 0, std::vector<Id>{3, 40}, 6);
    cache.commit(cache.prepare(6), std::vector<CommitId>{first});
  }
  real_files().create_directories(out.path());
  const Result result =
      tool("export " + directory.path() + " " + (out / "delta") + " --since 1 --weights-only");
  EXPECT_THAT(result.output, HasSubstr("4 rows, 0 tombstones of step 6"));
}

TEST(Tool, LooksChecksAndMoves) {
  const TempDirectory directory;
  const TempDirectory copy;
  const Rehearsal rehearsal{.steps = 20, .evict_every = 10};
  const Options options = rehearsal.cache_options(directory.path(), 0.2, StoreKind::kAuto);
  std::string digest;
  {
    Cache cache = Cache::open(options);
    rehearsal.run(cache);
    digest = cache.digest();
  }
  EXPECT_THAT(tool("stats " + directory.path()).output,
              HasSubstr("commit      2  step         20"));
  Result result = tool("verify --deep " + directory.path());
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("commit 2 is intact"));
  result = tool("dump --table plain --limit 3 " + directory.path());
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 3) << result.output;
  EXPECT_THAT(tool("dump --table plane " + directory.path()).output,
              HasSubstr("did you mean plain?"));
  std::filesystem::create_directories(copy.path());
  result = tool("export " + directory.path() + " " + (copy / "rows.delta"));
  EXPECT_EQ(result.status, 0) << result.output;
  write_file_atomic(real_files(), copy / "options.yaml", print_options(options));
  result = tool("import " + (copy / "cache") + " " + (copy / "rows.delta") + " --config " +
                (copy / "options.yaml"));
  EXPECT_EQ(result.status, 0) << result.output;
  result = tool("export " + directory.path() + " " + (copy / "later.delta") + " --since 1");
  EXPECT_EQ(result.status, 0) << result.output;
  result = tool("import " + (copy / "absent") + " " + (copy / "rows.delta"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("--config says of which tables"));
  result = tool("import " + (copy / "empty") + " " + (copy / "later.delta") + " --config " +
                (copy / "options.yaml"));
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("starts after step 10 (commit 1 where it was made)"));
  EXPECT_THAT(tool("stats " + (copy / "empty")).output, testing::Not(HasSubstr("commit")));
  const std::string a = tool("dump --table deep " + directory.path()).output;
  EXPECT_EQ(tool("dump --table deep " + (copy / "cache")).output, a);
  EXPECT_GT(a.size(), 1000U);
  const std::string state = directory / "commits/00000002/state.bin";
  std::filesystem::resize_file(state, 100);
  result = tool("verify " + directory.path());
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("state.bin: has 100 bytes"));
}

TEST(Tool, SizesFromAPlanAndFromALog) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory.path());
  write_file_atomic(
      real_files(), directory / "c.yaml",
      "embedding_cache: {tables: [{name: t, host_rows: 586000, segments: [{width: 16}]}]}");
  Result result = tool("plan --config " + (directory / "c.yaml") +
                       " --rows 5860000 --alpha 1.05 --draws 416000 --compute 1.1");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("90.2%"));
  std::string log;
  for (int i = 0; i < 2000; ++i) {
    log += std::to_string(i * i % 97) + "\n";
  }
  write_file_atomic(real_files(), directory / "log", log);
  result = tool("replay " + (directory / "log") + " --rows 30,60 --batch 20 --optimum --html " +
                (directory / "page.html"));
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("optimum"));
  EXPECT_TRUE(std::filesystem::exists(directory / "page.html"));
}

TEST(Tool, BadUsageIsStatusTwo) {
  EXPECT_EQ(tool("").status, 2);
  EXPECT_EQ(tool("--help").status, 0);
  Result result = tool("verfy x");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, HasSubstr("did you mean verify?"));
  EXPECT_EQ(tool("verify").status, 2);
  EXPECT_EQ(tool("verify x --commit two").status, 2);
  EXPECT_EQ(tool("verify x --comit 2").status, 2);
  EXPECT_EQ(tool("stats x --limit 2").status, 2) << "an option of another command";
  EXPECT_EQ(tool("verify /no/such/place").status, 1);
}

// A program that has another copy of one of our libraries, or of fmt, must not meet ours in here.
TEST(Tool, LibraryForOtherLanguagesExportsItsFunctionsAlone) {
  const std::string command = std::string(MSTRAIN_NM) + " -D --defined-only " + MSTRAIN_EC_LIBRARY;
  FILE* pipe = ::popen(command.c_str(), "r");
  char address[64];
  char kind[8];
  char name[4096];
  int functions = 0;
  while (std::fscanf(pipe, "%63s %7s %4095s", address, kind, name) == 3) {
    EXPECT_EQ(std::string_view(name).substr(0, 3), "ec_") << name;
    ++functions;
  }
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_EQ(functions, 24) << "of c_api.h";
}

TEST(Tool, KilledRunsEndEqual) {
  for (const char* store : {"memory", "rocksdb"}) {
    if (!has_rocksdb() && std::string_view(store) == "rocksdb") {
      continue;
    }
    const TempDirectory directory;
    const Result result = tool(fmt::format("killtest --rounds {} --seed 20 --store {} --dir {}",
                                           repetitions(15, 150), store, directory.path()));
    EXPECT_EQ(result.status, 0) << result.output;
    fmt::print("{}: {}", store, result.output);
  }
}

}  // namespace
}  // namespace mstrain::embedding_cache
