// What ends several processes that share a run, who says so, and how they go on.
#include <gmock/gmock.h>

#include <sched.h>

#include <functional>

#include "core/base/json.h"
#include "core/train/checkpoint.h"
#include "core/train/run_directory.h"
#include "tests/launcher/ranks.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RanksEnd : public ManyProcesses {};

TEST_F(RanksEnd, NameOneThatIsKilledAndGoOnFromTheNewestCheckpoint) {
  const SmallRun run;
  const std::vector<std::string> more{"checkpoint.interval=10", "checkpoint.async=false",
                                      "eval.interval=100000"};
  auto longer = more;
  longer.emplace_back(kLong);
  for (const int victim : {1, 0}) {
    RunningJob job(run.arguments("killed", longer), 2, run.path("killed"));
    job.await_steps();
    const std::vector<pid_t> pids = job.all_ranks();
    kill(pids[static_cast<size_t>(victim)], SIGKILL);
    const CommandResult result = job.wait();
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(count_of(result.err, fmt::format("rank {} (pid {} on ", victim,
                                               pids[static_cast<size_t>(victim)])),
              1)
        << result.err;
    EXPECT_EQ(count_of(result.err, "has died: "), 1) << result.err;
    EXPECT_THAT(result.err, Not(testing::AnyOf(HasSubstr("PMIX"), HasSubstr("mpirun"))));
    expect_gone(pids);
  }
  const int64_t step = *list_checkpoints(real_files(), run.path("killed/checkpoints")).rbegin();
  auto total = more;
  total.push_back(fmt::format("schedule.total_steps={}", step + 5));
  const CommandResult last = run_command(with_ranks(run.arguments("killed", total), 2));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr(fmt::format("going on from step {}", step)));
}

TEST_F(RanksEnd, NameOneThatIsStopped) {
  const SmallRun run;
  for (const int victim : {1, 0}) {
    RunningJob job(run.arguments("stopped", {kLong, "parallel.timeout_s=3"}), 2,
                   run.path("stopped"));
    job.await_steps();
    const std::vector<pid_t> pids = job.all_ranks();
    kill(pids[static_cast<size_t>(victim)], SIGSTOP);
    const CommandResult result = job.wait();
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(count_of(result.err, fmt::format("rank {} (pid {} on ", victim,
                                               pids[static_cast<size_t>(victim)])),
              1)
        << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("is stopped: it has not entered "),
                                  HasSubstr("(parallel.timeout_s: 3)")));
    expect_gone(pids);
  }
}

TEST_F(RanksEnd, BeginAgainWhereOneIsLostAndRestartsAreLeft) {
  const SmallRun run;
  const std::vector<std::string> more{"checkpoint.interval=10", "checkpoint.async=false",
                                      "eval.interval=100000"};
  auto longer = more;
  longer.insert(longer.end(), {kLong, "--restarts", "1", "--restart"});
  RunningJob job(run.arguments("run", longer), 2, run.path("run"));
  pid_t killed = 0;
  for (int lost = 0; lost < 2; ++lost) {
    job.await_rank(1, killed);
    job.await_steps();
    killed = job.rank(1);
    kill(killed, SIGKILL);
  }
  const CommandResult result = job.wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(count_of(result.err, "has died"), 2) << result.err;
  EXPECT_EQ(count_of(result.err, "starting 2 ranks again from the newest checkpoint, 1 of 1"), 1);
  // With what it had, although it was begun by --restart.
  EXPECT_EQ(count_of(result.err, "going on from step"), 1) << result.err;
}

TEST_F(RanksEnd, LogsOfAnEarlierRunStayUntilTheNewOneBegins) {
  const SmallRun run;
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"--ranks", "2", "schedule.total_steps=4", "eval.interval=100"};
    all.insert(all.end(), more.begin(), more.end());
    return run_command(run.arguments("run", all));
  };
  ASSERT_EQ(with({}).status, 0);
  const std::string log = run.path("run/ranks/rank-0001.log");
  ASSERT_TRUE(real_files().exists(log));
  write_text(log, "of the earlier run");
  EXPECT_EQ(with({"--restart", "memory.limit_gb=0.000001"}).status, 3);
  EXPECT_EQ(real_files().read(log), "of the earlier run");
  EXPECT_EQ(with({"--restart"}).status, 0);
  EXPECT_THAT(real_files().read(log), Not(HasSubstr("earlier")));
}

// The processors that a command and what it starts may use.
cpu_set_t first_of(const cpu_set_t& all, int count) {
  cpu_set_t some;
  CPU_ZERO(&some);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&some) < count; ++i) {
    if (CPU_ISSET(i, &all)) {
      CPU_SET(i, &some);
    }
  }
  return some;
}

TEST_F(RanksEnd, BeginAgainWithFewerWhereProcessorsAreGone) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) {
    GTEST_SKIP() << "there is one processor alone";
  }
  const SmallRun run;
  RunningJob job(run.arguments("run", {kLong, "checkpoint.interval=10", "eval.interval=100000",
                                       "--restarts", "2"}),
                 2, run.path("run"));
  job.await_steps();
  const cpu_set_t one = first_of(all, 1);
  ASSERT_EQ(sched_setaffinity(job.pid(), sizeof one, &one), 0);
  // The second time the one that is left is lost: it begins again as well.
  pid_t killed = 0;
  for (const int victim : {1, 0}) {
    job.await_rank(victim, killed);
    job.await_steps();
    killed = job.rank(victim);
    kill(killed, SIGKILL);
  }
  job.await_rank(0, killed);
  job.await_steps();
  job.signal(SIGINT);
  const CommandResult result = job.wait();
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_EQ(count_of(result.err, "starting 1 rank again from the newest checkpoint"), 2)
      << result.err;
  EXPECT_EQ(count_of(result.err, "going on from step"), 2) << result.err;
  EXPECT_EQ(count_of(result.out, "the same command goes on"), 1) << result.out;
}

TEST_F(RanksEnd, SaveOnceAndEndWhereAnyIsInterrupted) {
  const SmallRun run;
  const std::vector<std::string> more{"checkpoint.interval=100000000", "eval.interval=100000000",
                                      kLong};
  const auto interrupted = [&](const std::function<void(const RunningJob&)>& how) {
    RunningJob job(run.arguments("run", more), 2, run.path("run"));
    job.await_steps();
    const std::vector<pid_t> pids = job.all_ranks();
    how(job);
    const CommandResult result = job.wait();
    EXPECT_EQ(result.status, 130) << result.err;
    EXPECT_EQ(count_of(result.out, "the same command goes on"), 1) << result.out;
    expect_gone(pids);
    return list_checkpoints(real_files(), run.path("run/checkpoints")).back();
  };
  int64_t last = interrupted([](const RunningJob& job) { job.signal(SIGINT); });
  for (const int rank : {0, 1}) {
    const int64_t next = interrupted([&](const RunningJob& job) { kill(job.rank(rank), SIGTERM); });
    EXPECT_GT(next, last);
    last = next;
  }
}

TEST_F(RanksEnd, EndAtOnceWhereNothingIsToBeSavedYet) {
  const SmallRun run;
  RunningCommand command(with_ranks(run.arguments("run", {kLong}), 2));
  command.signal(SIGINT);
  const CommandResult result = command.wait();
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.err, "");
}

// In steps and in saves, of which there is one after another here.
TEST_F(RanksEnd, EndWhateverSignalTakesOne) {
  const SmallRun run;
  const std::vector<std::string> more{"checkpoint.interval=1", "eval.interval=100000",
                                      "parallel.timeout_s=5", kLong};
  for (const int signal : {SIGXFSZ, SIGBUS}) {
    SCOPED_TRACE(signal);
    const std::string name = fmt::format("run{}", signal);
    RunningJob job(run.arguments(name, more), 2, run.path(name));
    job.await_steps();
    const std::vector<pid_t> pids = job.all_ranks();
    kill(pids[1], signal);
    const CommandResult result = job.wait();
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_EQ(count_of(result.err, fmt::format("rank 1 (pid {} on ", pids[1])), 1) << result.err;
    expect_gone(pids);
  }
}

// mpirun may wait for ever once its ranks are gone.
TEST_F(RanksEnd, DoNotWaitForAnMpirunThatDoesNotEnd) {
  const SmallRun run;
  const std::string script = run.path("bin/mpirun");
  const std::string path = std::getenv("PATH");
  write_text(script, "#!/bin/sh\ntrap '' TERM\nPATH=" + path +
                         "\nmpirun \"$@\"\nwhile true; do sleep 1; done\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Environment first("PATH", (run.path("bin") + ":" + path).c_str());
  const CommandResult whole = run_command(with_ranks(run.arguments("whole"), 2));
  EXPECT_EQ(whole.status, 0) << whole.err;
  EXPECT_EQ(count_of(whole.out, "finished at step 40"), 1);
}

TEST_F(RanksEnd, SayThatMpirunWasKilled) {
  const SmallRun run;
  const std::string script = run.path("bin/mpirun");
  write_text(script, "#!/bin/sh\nkill -9 $$\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Environment first("PATH",
                          (run.path("bin") + ":" + std::string(std::getenv("PATH"))).c_str());
  const CommandResult killed = run_command(with_ranks(run.arguments("killed"), 2));
  EXPECT_EQ(killed.status, 1);
  EXPECT_THAT(killed.err, HasSubstr("mpirun did not start them, and was ended by signal 9"));
}

TEST_F(RanksEnd, EndWhereFilesMayNotGrow) {
  const SmallRun run;
  for (const char* const limit : {"8", "64", "200"}) {  // blocks of 512 or 1,024 bytes
    std::vector<std::string> words{"-c", "ulimit -c 0; ulimit -f \"$0\"; exec \"$@\"", limit,
                                   MSTRAIN_COMMAND};
    for (const std::string& word : with_ranks(run.arguments(limit, {kLong}), 2)) {
      words.push_back(word);
    }
    const CommandResult result = RunningCommand(words, "/bin/sh").wait();
    EXPECT_EQ(result.status, 1) << limit << ": " << result.err;
  }
}

TEST_F(RanksEnd, DieWithTheCommandThatStartedThem) {
  const SmallRun run;
  RunningJob job(run.arguments("run", {kLong}), 2, run.path("run"));
  job.await_steps();
  const std::vector<pid_t> pids = job.all_ranks();
  job.signal(SIGKILL);
  job.wait();
  for (const pid_t pid : pids) {
    while (kill(pid, 0) == 0) {
      sleep_briefly();
    }
  }
}

}  // namespace
}  // namespace mstrain
