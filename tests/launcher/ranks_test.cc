// Several processes that share a run, as a user meets them: --ranks and mpirun, what ends them, and who says so.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <thread>

#include "core/base/json.h"
#include "core/train/checkpoint.h"
#include "core/train/run_directory.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Long enough that no run ends before what is done to it.
constexpr const char* kLong = "schedule.total_steps=2000000000";

void sleep_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::vector<std::string> with_ranks(std::vector<std::string> arguments, int ranks) {
  arguments.insert(arguments.end(), {"--ranks", std::to_string(ranks)});
  return arguments;
}

// What mpirun by itself makes of it, without its own words about statuses.
CommandResult run_under_mpirun(int ranks, const std::vector<std::string>& arguments) {
  const Environment plm("OMPI_MCA_plm", "isolated");
  const Environment pml("OMPI_MCA_pml", "ob1");
  const Environment btl("OMPI_MCA_btl", "self,vader");
  std::vector<std::string> all{"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n",
                               std::to_string(ranks), MSTRAIN_COMMAND};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunningCommand(all, "mpirun").wait();
}

// A job of processes that `mstrain --ranks` has started.
class RunningJob {
 public:
  RunningJob(const std::vector<std::string>& arguments, int ranks, std::string directory)
      : directory_(std::move(directory)), ranks_(ranks), command_(with_ranks(arguments, ranks)) {}

  // Until it has written so much more of its metrics.
  void await_steps() {
    const std::string metrics = join_path(directory_, "metrics.jsonl");
    const auto written = [&]() -> uint64_t {
      return real_files().exists(metrics) ? real_files().file_size(metrics) : 0;
    };
    const uint64_t before = written();
    while (written() < before + 1000) {
      ASSERT_FALSE(command_.ended()) << command_.wait().err;
      sleep_briefly();
    }
  }

  std::optional<pid_t> find_rank(int number) const {
    const std::string mine = fmt::format("MSTRAIN_STARTER=mstrain-{}-", command_.pid());
    const std::string rank = fmt::format("OMPI_COMM_WORLD_RANK={}", number);
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "environ", std::ios::binary);
      const std::string environment(std::istreambuf_iterator<char>(file), {});
      if (environment.find(mine) != std::string::npos &&
          environment.find(rank + '\0') != std::string::npos) {
        return static_cast<pid_t>(std::stol(entry.path().filename()));
      }
    }
    return std::nullopt;
  }
  pid_t rank(int number) const {
    const auto pid = find_rank(number);
    EXPECT_TRUE(pid) << "rank " << number << " is not there";
    return pid.value_or(-1);
  }
  std::vector<pid_t> all_ranks() const {
    std::vector<pid_t> out;
    for (int i = 0; i < ranks_; ++i) {
      out.push_back(rank(i));
    }
    return out;
  }
  void signal(int number) const { command_.signal(number); }
  CommandResult wait() { return command_.wait(); }

 private:
  std::string directory_;
  int ranks_;
  RunningCommand command_;
};

class Ranks : public testing::Test {
  const Environment leaks_{"ASAN_OPTIONS", "detect_leaks=0"};  // those of MPI itself
};

void expect_gone(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    EXPECT_NE(kill(pid, 0), 0) << pid << " was left behind";
  }
}

TEST_F(Ranks, ShareOneRunAndItsDirectory) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("one")).status, 0);
  const CommandResult two = run_command(with_ranks(run.arguments("two"), 2));
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(count_of(two.out, "finished at step 40"), 1);
  EXPECT_EQ(count_of(two.err, "step 40/40"), 1) << two.err;
  EXPECT_EQ(newest_files(run.path("two")), newest_files(run.path("one")));
  EXPECT_EQ(real_files().list(run.path("two/ranks")), std::vector<std::string>{"rank-0001.log"});
  // The same, started by hand.
  const CommandResult hand = run_under_mpirun(2, run.arguments("hand"));
  ASSERT_EQ(hand.status, 0) << hand.err;
  EXPECT_EQ(count_of(hand.out, "finished at step 40"), 1);
  EXPECT_EQ(newest_files(run.path("hand")), newest_files(run.path("one")));
}

TEST_F(Ranks, SayWhatOneRankWouldOnceWithItsStatus) {
  const SmallRun run;
  struct Case {
    std::vector<std::string> more;
    int status;
    const char* said;
  };
  const Case cases[] = {{{"model.hidden_sise=3"}, 2, "did you mean model.hidden_size?"},
                        {{"run.mode=eval"}, 2, "run.mode"},
                        {{"memory.limit_gb=0.0001"}, 3, "memory.limit_gb"},
                        {{"--help"}, 0, "usage: mstrain"},
                        {{"--version"}, 0, "instruction set"}};
  for (const Case& each : cases) {
    const auto arguments = run.arguments("refused", each.more);
    const CommandResult started = run_command(with_ranks(arguments, 2));
    EXPECT_EQ(started.status, each.status) << started.err;
    EXPECT_EQ(count_of(started.out + started.err, each.said), 1) << started.out << started.err;
    const CommandResult hand = run_under_mpirun(2, arguments);
    EXPECT_EQ(hand.status, each.status) << hand.err;
    EXPECT_EQ(count_of(hand.out + hand.err, each.said), 1) << hand.out << hand.err;
  }
  const CommandResult inspected = run_under_mpirun(2, {"inspect", run.path("text.txt")});
  EXPECT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_EQ(count_of(inspected.out, "text.txt"), 1) << inspected.out;
}

TEST_F(Ranks, AreRefusedWhereTheyMakeNoSense) {
  const SmallRun run;
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--ranks", "0"}, "--ranks: expected 1 to"},
      {{"--ranks", "two"}, "--ranks: expected an integer"},
      {{"--restarts", "1"}, "--restarts: goes with --ranks"},
      {{"--ranks", "2", "--dry-run"}, "--dry-run: starts no ranks; parallel.data=2"},
      {{"--ranks", "3", "parallel.data=2"}, "parallel.data"}};
  for (const auto& [more, said] : cases) {
    const CommandResult result = run_command(run.arguments("refused", more));
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(said));
  }
  const CommandResult other = run_under_mpirun(2, with_ranks(run.arguments("refused"), 3));
  EXPECT_EQ(other.status, 2);
  EXPECT_EQ(count_of(other.err, "--ranks: 3, but 2 processes were started together"), 1);
}

TEST_F(Ranks, NeedMpirunAndSaySo) {
  const SmallRun run;
  const Environment path("PATH", "/nowhere");
  const CommandResult result = run_command(with_ranks(run.arguments("run"), 2));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("mpirun is not on PATH"), HasSubstr("openmpi-bin")));
}

TEST_F(Ranks, NameOneThatIsKilledAndGoOnFromTheNewestCheckpoint) {
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

TEST_F(Ranks, NameOneThatIsStopped) {
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

TEST_F(Ranks, BeginAgainWhereOneIsLostAndRestartsAreLeft) {
  const SmallRun run;
  const std::vector<std::string> more{"checkpoint.interval=10", "checkpoint.async=false",
                                      "eval.interval=100000"};
  auto longer = more;
  longer.insert(longer.end(), {kLong, "--restarts", "1", "--restart"});
  RunningJob job(run.arguments("run", longer), 2, run.path("run"));
  pid_t killed = 0;
  for (int lost = 0; lost < 2; ++lost) {
    while (job.find_rank(1).value_or(killed) == killed) {
      sleep_briefly();
    }
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

TEST_F(Ranks, SaveOnceAndEndWhereAnyIsInterrupted) {
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

TEST_F(Ranks, EndAtOnceWhereNothingIsToBeSavedYet) {
  const SmallRun run;
  RunningCommand command(with_ranks(run.arguments("run", {kLong}), 2));
  command.signal(SIGINT);
  const CommandResult result = command.wait();
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.err, "");
}

TEST_F(Ranks, DieWithTheCommandThatStartedThem) {
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
