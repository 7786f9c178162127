// The example program on real Criteo rows, killed and started again.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/amount.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

std::string output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string output;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) {
    output += static_cast<char>(c);
  }
  EXPECT_EQ(::pclose(pipe), 0) << output;
  return output;
}

std::string digest_in(const std::string& output) {
  const size_t at = output.find("digest ");
  return at == std::string::npos ? "" : output.substr(at);
}

TEST(Example, KilledRunGoesOnAndEndsEqual) {
  const char* data = std::getenv("MSTRAIN_TEST_DATA");
  const std::string folder =
      data != nullptr ? data : std::string(MSTRAIN_SOURCE_DIR) + "/../shared/data";
  const std::string file = folder + "/criteo_sample.csv";
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << file << " is not there";
  }
  constexpr const char* kSteps = kSanitized ? "400" : "3000";
  const TempDirectory straight;
  const TempDirectory killed;
  const std::string command = std::string(MSTRAIN_EC_EXAMPLE) + " " + file + " ";
  const std::string expected = output_of(command + straight.path() + " " + kSteps);
  ASSERT_NE(digest_in(expected), "");
  bool was_killed = false;
  for (int attempt = 0; attempt < 20 && !was_killed; ++attempt) {  // it may end before it is killed
    std::filesystem::remove_all(killed.path());
    const pid_t child = ::fork();
    if (child == 0) {
      if (std::freopen("/dev/null", "w", stdout) == nullptr) {
        ::_exit(126);
      }
      ::execl(MSTRAIN_EC_EXAMPLE, "criteo_logistic", file.c_str(), killed.path().c_str(), kSteps,
              nullptr);
      ::_exit(127);
    }
    const std::string first_commit = killed / "commits/00000001/MANIFEST.json";
    for (int i = 0; i < 1000 && !std::filesystem::exists(first_commit); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    was_killed = WIFSIGNALED(status);
  }
  ASSERT_TRUE(was_killed);
  const std::string resumed = output_of(command + killed.path() + " " + kSteps);
  EXPECT_EQ(resumed.find("from step 0\n"), std::string::npos) << resumed;
  EXPECT_EQ(digest_in(resumed), digest_in(expected));
}

}  // namespace
}  // namespace mstrain::embedding_cache
