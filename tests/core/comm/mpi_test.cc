// Processes under mpirun: what they exchange, and what they are told of others that fail them.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/files.h"
#include "tests/amount.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The exit status of mpirun, which is told not to end those that are left when a rank ends badly.
int mpirun(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{
      "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
      "-n",     std::to_string(ranks), MSTRAIN_MPI_RANKS};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    for (const char* name : {"OMPI_MCA_plm=isolated", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader",
                             "OMPI_MCA_orte_enable_recovery=1"}) {
      putenv(const_cast<char*>(name));
    }
    if (kSanitized) {
      putenv(const_cast<char*>("ASAN_OPTIONS=detect_leaks=0"));  // of MPI's own
    }
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Mpi, CollectivesDoWhatALoopDoes) {
  for (const int ranks : kSanitized ? std::vector{3} : std::vector{1, 2, 3, 4}) {
    EXPECT_EQ(mpirun(ranks, {"collectives"}), 0) << ranks << " ranks";
  }
}

TEST(Mpi, AMeshHasAGroupForEachAxis) { EXPECT_EQ(mpirun(4, {"groups"}), 0); }

TEST(Mpi, PiecesMayHaveMoreBytesThanAnIntCounts) {
  if (!long_tests()) {
    GTEST_SKIP() << "takes 5 GB; MSTRAIN_LONG_TESTS=1 runs it";
  }
  EXPECT_EQ(mpirun(2, {"large"}), 0);
}

// What the ranks but rank 1 were told when it did so.
class MpiFailure : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kRanks = 3;

  void after(const std::string& how) {
    mpirun(kRanks, {how, folder_.path(), GetParam()});
    for (const int rank : {0, 2}) {
      const std::string path = folder_ / fmt::format("rank-{}", rank);
      ASSERT_TRUE(real_files().exists(path)) << "rank " << rank << " was told nothing";
      errors_.push_back(real_files().read(path));
    }
    EXPECT_EQ(errors_[0], errors_[1]);
    // People once, by the first rank that is there.
    EXPECT_EQ(real_files().read(folder_ / "told-0"), errors_[0]);
    EXPECT_FALSE(real_files().exists(folder_ / "told-2"));
  }

  TemporaryFolder folder_;
  std::vector<std::string> errors_;
};

// Of what goes through memory that ranks share, and of what MPI carries.
INSTANTIATE_TEST_SUITE_P(Elements, MpiFailure, testing::Values("10", "100000"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(MpiFailure, ARankThatDiesIsNamedWithTheCollective) {
  after("dies");
  EXPECT_THAT(errors_[0], AllOf(HasSubstr("rank 1 (pid "), HasSubstr("has died"),
                                HasSubstr("all_reduce grad.3 of world, which ranks 0, 2 wait in")));
}

TEST_P(MpiFailure, ARankThatEndsWithoutAWordIsNamed) {
  after("leaves");
  EXPECT_THAT(errors_[0], AllOf(HasSubstr("rank 1 (pid "), HasSubstr("has died")));
}

TEST_P(MpiFailure, ARankThatIsStoppedIsNamedWithTheCollective) {
  after("stops");
  EXPECT_THAT(errors_[0], AllOf(HasSubstr("rank 1 (pid "), HasSubstr("is stopped"),
                                HasSubstr("not entered all_reduce grad.3 of world, which ranks "
                                          "0, 2 wait in (parallel.timeout_s: 2)")));
}

TEST_P(MpiFailure, ARankThatIsLateIsNamedWithTheCollective) {
  after("is_late");
  EXPECT_THAT(errors_[0],
              AllOf(HasSubstr("rank 1 (pid "), HasSubstr(" s late"),
                    HasSubstr("not entered all_reduce grad.3 of world, which ranks 0, 2 wait in")));
}

TEST_P(MpiFailure, WhatARankFailsByIsToldToAll) {
  after("fails");
  EXPECT_EQ(errors_[0], "rank 1: the disk is full\n");
}

TEST_P(MpiFailure, ARankThatLacksMemoryWhereAnOperationBeginsTellsAll) {
  after("lacks_memory");
  EXPECT_EQ(errors_[0], "rank 1: std::bad_alloc\n");
}

}  // namespace
}  // namespace mstrain
