#include "core/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Log, DropsWhatIsBelowItsLevel) {
  std::vector<std::pair<LogLevel, std::string>> seen;
  set_log_sink([&](LogLevel level, std::string_view text) { seen.emplace_back(level, text); });
  log_debug("no {}", 1);
  log_info("yes {}", 2);
  set_log_level(LogLevel::kError);
  log_warning("no");
  log_error("worse {}", "still");
  set_log_level(LogLevel::kInfo);
  set_log_sink({});
  EXPECT_THAT(seen,
              ElementsAre(Pair(LogLevel::kInfo, "yes 2"), Pair(LogLevel::kError, "worse still")));
}

TEST(Log, LinesFromThreadsStayWhole) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        log_warning("{}", std::string(200, static_cast<char>('a' + t)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::istringstream lines(testing::internal::GetCapturedStderr());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_EQ(line.size(), 209U);
    ASSERT_EQ(line.substr(0, 9), "warning: ");
    ASSERT_EQ(line.substr(9), std::string(200, line[9]));
  }
  EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace mstrain
