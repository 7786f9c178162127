// Ranks that do not come to the others: those that do are not to wait for them.
#include <gmock/gmock.h>

#include <chrono>

#include "tests/launcher/ranks.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RanksBegin : public ManyProcesses {
 protected:
  // Of two ranks the second does `what`, a line of a shell's, before it is mstrain, and the first sleeps for so many seconds.
  CommandResult begin_where_one(const std::string& what, int other_sleeps = 0,
                                std::vector<std::string> more = {}) {
    const std::string path = std::getenv("PATH");
    const auto script = [&](const std::string& name, const std::string& text) {
      write_text(run_.path(name), "#!/bin/sh\n" + text);
      std::filesystem::permissions(run_.path(name), std::filesystem::perms::owner_all);
    };
    script("rank", fmt::format("if test \"$OMPI_COMM_WORLD_RANK\" = 1; then {}\n"
                               "else sleep {}; fi\nexec \"$@\"\n",
                               what, other_sleeps));
    script(
        "bin/mpirun",
        "PATH=" + path + "\nfor word; do\n  shift\n  case \"$word\" in */mstrain) set -- \"$@\" '" +
            run_.path("rank") + "';; esac\n  set -- \"$@\" \"$word\"\ndone\nexec mpirun \"$@\"\n");
    const Environment first("PATH", (run_.path("bin") + ":" + path).c_str());
    const auto begin = std::chrono::steady_clock::now();
    more.emplace_back("parallel.timeout_s=2");
    const CommandResult result = run_command(with_ranks(run_.arguments("run", more), 2));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25));
    return result;
  }

  const SmallRun run_;
};

TEST_F(RanksBegin, GoOnWhereOneIsSlow) {
  const CommandResult result = begin_where_one("sleep 3");
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(RanksBegin, NameOneThatDiesOnItsWay) {
  for (const std::string moment : {"", "sleep 1; "}) {
    const CommandResult result = begin_where_one("{ " + moment + "kill -9 $$; }");
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("rank 1"), HasSubstr("died before the ranks had met")));
    EXPECT_EQ(count_of(result.err, "\n"), 1) << result.err;
  }
}

TEST_F(RanksBegin, AnewWhereOneDiedBeforeTheEarlierRunWasRemoved) {
  ASSERT_EQ(run_command(run_.arguments("run", {"schedule.total_steps=5"})).status, 0);
  const CommandResult result = begin_where_one(
      fmt::format("test -e '{0}' || {{ touch '{0}'; kill -9 $$; }}", run_.path("has died")), 0,
      {"schedule.total_steps=5", "--restarts", "1", "--restart"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("starting 2 ranks again with --restart, which had removed nothing yet"),
            HasSubstr("what an earlier run had written is removed")));
  EXPECT_THAT(result.out, HasSubstr("finished at step 5, "));
}

TEST_F(RanksBegin, NameOneThatIsStoppedOnItsWay) {
  const CommandResult result = begin_where_one("kill -STOP $$");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("rank 1 (pid "), HasSubstr("stopped before the ranks had met"),
                    HasSubstr("(parallel.timeout_s: 2)")));
  EXPECT_EQ(count_of(result.err, "\n"), 1) << result.err;
}

TEST_F(RanksBegin, NameOneThatIsStoppedWhereItWaitsForTheOther) {
  const CommandResult result = begin_where_one("{ sleep 1; kill -STOP $$; } &", 2);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("rank 1 (pid "), HasSubstr("stopped before the ranks had met")));
}

}  // namespace
}  // namespace mstrain
