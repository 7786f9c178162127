// log.txt of a run directory, and what a run began from.
#include "core/train/log_file.h"

#include <gmock/gmock.h>

#include "core/base/files_fault.h"
#include "core/train/lineage.h"
#include "core/train/report_data.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST_F(Fit, ARunKeepsWhatItSaidWithTimes) {
  TrainConfig config = small_config(folder_ / "run");
  config.schedule.total_steps = 8;
  run_small(config);
  const std::string path = join_path(config.run.directory(), kLogFile);
  const std::string first = real_files().read(path);
  EXPECT_THAT(first, testing::ContainsRegex("^20[0-9]+-[0-9T:-]+Z  "));
  EXPECT_THAT(first, HasSubstr("step 8  eval loss"));
  config.schedule.total_steps = 16;
  run_small(config);
  EXPECT_THAT(real_files().read(path), testing::StartsWith(first));
  EXPECT_THAT(real_files().read(path), HasSubstr("going on from step 8"));
  run_small(config, real_files(), small_data(), small_task(), nullptr, {.restart = true});
  EXPECT_THAT(real_files().read(path), Not(testing::StartsWith(first)));
}

TEST_F(Fit, AFailureStandsInTheLog) {
  const TrainConfig config = small_config(folder_ / "run");
  EXPECT_THROW(run_small(config, real_files(), poisoned()), Error);
  EXPECT_THAT(real_files().read(join_path(config.run.directory(), kLogFile)),
              HasSubstr("  error: step 7: the loss is nan"));
}

TEST(LogFile, PassesOnWhatItWritesAndSaysOnceThatItCannot) {
  const TemporaryFolder folder;
  std::vector<std::string> passed;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view message) { passed.emplace_back(message); });
  FaultyFiles files(real_files());
  {
    const LogFile log(files, folder / "log.txt");
    log_warning("one");
    files.reset({.enospc_after_bytes = 0});
    log_info("two");
    log_info("three");
  }
  log_info("four");
  set_log_sink(before);
  EXPECT_THAT(passed, ElementsAre("one", "two", EndsWith("the log ends here"), "three", "four"));
  EXPECT_THAT(real_files().read(folder / "log.txt"), EndsWith("Z  warning: one\n"));
}

TEST(LogFile, BeginsWithWhatWasSaidBeforeIt) {
  const TemporaryFolder folder;
  std::vector<std::string> passed;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view message) { passed.emplace_back(message); });
  {
    const EarlyMessages early;
    log_warning("one");
    {
      const LogFile log(real_files(), folder / "log.txt");
      log_info("two");
    }
    log_info("three");
    const LogFile other(real_files(), folder / "other.txt");
  }
  log_info("four");
  set_log_sink(before);
  EXPECT_THAT(passed, ElementsAre("one", "two", "three", "four"));
  EXPECT_THAT(real_files().read(folder / "log.txt"),
              testing::MatchesRegex(".*Z  warning: one\n.*Z  two\n"));
  EXPECT_EQ(real_files().read(folder / "other.txt"), "");
}

TEST(LogFile, ItsTailBeginsWithAWholeLine) {
  const TemporaryFolder folder;
  EXPECT_EQ(log_tail(real_files(), folder / "none.txt"), "");
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  real_files().open(folder / "log.txt", WriteMode::kTruncate)->append(text);
  const std::string tail = log_tail(real_files(), folder / "log.txt");
  EXPECT_LT(tail.size(), 70000U);
  EXPECT_THAT(tail, testing::StartsWith("line "));
  EXPECT_THAT(text, EndsWith(tail));
}

TEST_F(Fit, TheOriginOfARunIsFoundByItsCheckpointOrItsFolder) {
  const TrainConfig config = small_config(folder_ / "parent");
  run_small(config);
  const std::string real = real_path(folder_ / "parent");
  const auto origin = [&](const std::string& from) {
    const Origin found = origin_of(real_files(), from, folder_.path());
    return std::vector<std::string>{found.path, found.run_directory, found.checkpoint};
  };
  EXPECT_THAT(origin("parent"), ElementsAre("parent", real, ""));
  EXPECT_THAT(origin("parent/checkpoints/step-00000020"),
              ElementsAre("parent/checkpoints/step-00000020", real, "step-00000020"));
  // Checkpoints are pruned; what began from one still did.
  EXPECT_THAT(origin("parent/checkpoints/step-00000005"),
              ElementsAre("parent/checkpoints/step-00000005", real, "step-00000005"));
  EXPECT_THAT(origin("parent/checkpoints/other"), ElementsAre("parent/checkpoints/other", "", ""));
  EXPECT_THAT(origin("gpt2"), ElementsAre("gpt2", "", ""));
}

}  // namespace
}  // namespace mstrain
