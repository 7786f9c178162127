// Several processes that share a run, as a user meets them: --ranks and mpirun, what ends them, and who says so.
#include <gmock/gmock.h>

#include <sched.h>

#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "core/base/json.h"
#include "core/train/checkpoint.h"
#include "core/train/run_directory.h"
#include "tests/launcher/job.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
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

class Ranks : public testing::Test {
  const Environment leaks_{"ASAN_OPTIONS", "detect_leaks=0"};  // those of MPI itself
};

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

TEST_F(Ranks, EvaluateMeasureAndLookForARateTogether) {
  const SmallRun run;
  const auto run_alone_and_shared = [&](const std::vector<std::string>& more) {
    const std::vector<std::string> arguments = run.arguments("run", more);
    return std::pair(run_command(arguments), run_command(with_ranks(arguments, 2)));
  };
  ASSERT_EQ(run_command(run.arguments("run")).status, 0);
  const auto [alone, shared] = run_alone_and_shared({"run.mode=eval"});
  ASSERT_EQ(shared.status, 0) << shared.err;
  const size_t end = alone.out.find(" predictions");  // what follows took its time
  ASSERT_NE(end, std::string::npos) << alone.out;
  EXPECT_EQ(shared.out.substr(0, end), alone.out.substr(0, end));
  const CommandResult stages =
      run_command(with_ranks(run.arguments("run", {"run.mode=eval", "parallel.pipeline=2"}), 2));
  EXPECT_EQ(stages.out.substr(0, end), alone.out.substr(0, end)) << stages.err;
  const auto [lonely, timed] = run_alone_and_shared({"run.mode=benchmark"});
  EXPECT_EQ(lonely.status + timed.status, 0) << timed.err;
  EXPECT_EQ(count_of(timed.out, "steps 40  median"), 1) << timed.out;
  // Both look in one directory, one after the other.
  const auto curve = [&](int ranks) {
    const CommandResult result = run_command(
        with_ranks(run.arguments("run", {"run.mode=find_lr", "find_lr.steps=30"}), ranks));
    EXPECT_EQ(result.status, 0) << result.err;
    return real_files().read(run.path("run/find_lr/find_lr.json"), 1 << 20);
  };
  const std::string curve_of_one = curve(1);
  EXPECT_EQ(curve(2), curve_of_one);
}

TEST_F(Ranks, ShareTheLayersOfARun) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("one")).status, 0);
  const CommandResult stages =
      run_command(with_ranks(run.arguments("stages", {"parallel.pipeline=2"}), 2));
  ASSERT_EQ(stages.status, 0) << stages.err;
  EXPECT_EQ(newest_files(run.path("stages")), newest_files(run.path("one")));
}

TEST_F(Ranks, ComputeCopiesSideBySideInTheStagesOfAPipeline) {
  const SmallRun run;
  const auto files_of = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> keys{"batch.global=8", "parallel.pipeline=2", "parallel.tensor=2",
                                  "schedule.total_steps=10"};
    keys.insert(keys.end(), more.begin(), more.end());
    const CommandResult result = run_command(with_ranks(run.arguments(name, keys), 4));
    EXPECT_EQ(result.status, 0) << result.err;
    return newest_files(run.path(name));
  };
  EXPECT_EQ(files_of("copies", {"batch.micro=4", "parallel.copies=2"}),
            files_of("halves", {"batch.micro=2"}));
}

TEST_F(Ranks, TakeTheLayoutThatAPlanSays) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("one")).status, 0);
  write_file_atomic(real_files(), run.path("plan.yaml"),
                    std::string("parallel: {pipeline: 2, zero: {stage: 3}}\n"));
  const std::string plan = "parallel.plan=" + run.path("plan.yaml");
  const CommandResult stages = run_command(with_ranks(run.arguments("stages", {plan}), 2));
  ASSERT_EQ(stages.status, 0) << stages.err;
  EXPECT_EQ(newest_files(run.path("stages")), newest_files(run.path("one")));
  const CommandResult other =
      run_command(with_ranks(run.arguments("other", {plan, "parallel.pipeline=1"}), 2));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("parallel.pipeline: 1, but the plan "),
                               HasSubstr("plan.yaml says 2; leave one out")));
  write_file_atomic(real_files(), run.path("plan.yaml"), std::string("parallel: {tensr: 2}\n"));
  const CommandResult wrong = run_command(with_ranks(run.arguments("wrong", {plan}), 2));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err,
              HasSubstr("parallel.tensr: is no key of a plan; did you mean parallel.tensor?"));
}

TEST_F(Ranks, LookForALayoutAndKeepIt) {
  const SmallRun run;
  const auto go_on = [&](const std::string& steps, int ranks) {
    const CommandResult result = run_command(with_ranks(
        run.arguments("run", {"parallel.plan=auto", "schedule.total_steps=" + steps}), ranks));
    EXPECT_EQ(result.status, 0) << result.err;
    return count_of(result.err, "parallel.plan: auto takes ");
  };
  EXPECT_EQ(go_on("10", 2), 1);
  EXPECT_EQ(go_on("20", 2), 0);
}

TEST_F(Ranks, ShowWhatTheyDoInAStepAsPlannedAndAsMeasured) {
  const SmallRun run;
  const CommandResult stages = run_command(with_ranks(
      run.arguments("run", {"parallel.pipeline=2", "batch.micro=1", "profile.steps=3"}), 2));
  ASSERT_EQ(stages.status, 0) << stages.err;
  const std::string path = run.path("run/profile.json");
  const Json profile = parse_json(real_files().read(path, 1 << 26), path);
  using Work = std::tuple<std::string, int, int>;  // with its chunk and micro-batch
  std::map<std::string, std::vector<std::set<Work>>> works;
  for (const char* kind : {"planned", "measured"}) {
    const Json& picture = profile.at("otherData").at(kind);
    EXPECT_GT(picture.at("seconds").get<double>(), 0);
    for (const Json& rank : picture.at("ranks")) {
      std::set<Work> all;
      for (const Json& bar : rank) {
        if (bar.at(2).get<int>() >= 0) {
          all.emplace(bar.at(0), bar.at(1), bar.at(2));
        }
      }
      works[kind].push_back(std::move(all));
    }
  }
  ASSERT_EQ(works["planned"].size(), 2U);
  EXPECT_EQ(works["planned"][0].size(), 8U);  // four micro-batches, forward and backward
  EXPECT_EQ(works["measured"], works["planned"]);
  // The trace has them as a row of each rank.
  std::map<int, int> actions;
  for (const Json& event : profile.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("cat") == "schedule") {
      ++actions[event.at("pid").get<int>()];
    }
  }
  EXPECT_EQ(actions, (std::map<int, int>{{1, 24}, {2, 24}}));
}

TEST_F(Ranks, SayWhatOneRankWouldOnceWithItsStatus) {
  const SmallRun run;
  struct Case {
    std::vector<std::string> more;
    int status;
    const char* said;
  };
  const Case cases[] = {{{"model.hidden_sise=3"}, 2, "did you mean model.hidden_size?"},
                        {{"run.mode=generate"}, 2, "run.mode"},
                        {{"memory.limit_gb=0.0001"}, 3, "memory.limit_gb"},
                        {{"data.train=nowhere.txt"}, 1, "nowhere.txt"},
                        {{"data.train=nowhere.txt"}, 1, "nowhere.txt"},
                        {{"data.train=nowhere.txt"}, 1, "nowhere.txt"},
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
      {{"--ranks", "3", "parallel.data=2"}, "parallel.data"},
      {{"--ranks", "3"}, "batch.global: 4 samples in micro-batches of 2 cannot be shared by 3"}};
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

TEST_F(Ranks, ShareTheRunsOfASweep) {
  const SmallRun run;
  const std::string keys = "sweep.keys={optimizer.lr: [1.0e-2, 1.0e-3]}";
  const auto file = [&](const std::string& name, const std::string& path) {
    return real_files().read(run.path(name + path));
  };
  ASSERT_EQ(run_command(run.arguments("one", {keys})).status, 0);
  const CommandResult two = run_command(with_ranks(run.arguments("two", {keys}), 2));
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(count_of(two.out, "best eval_loss"), 1) << two.out;
  EXPECT_EQ(file("two", "/sweep.json"), file("one", "/sweep.json"));
  EXPECT_EQ(newest_files(run.path("two/runs/001")), newest_files(run.path("one/runs/001")));
  const std::vector<std::string> more{keys, "checkpoint.async=false", "eval.interval=100000"};
  auto longer = more;
  longer.emplace_back(kLong);
  for (const int signal : {SIGKILL, SIGINT}) {
    RunningJob job(run.arguments("ended", longer), 2, run.path("ended/runs/000"));
    job.await_steps();
    const std::vector<pid_t> pids = job.all_ranks();
    signal == SIGKILL ? static_cast<void>(kill(pids[1], signal)) : job.signal(signal);
    const CommandResult result = job.wait();
    EXPECT_EQ(result.status, signal == SIGKILL ? 1 : 130) << result.err;
    EXPECT_EQ(count_of(result.err, "has died: "), signal == SIGKILL ? 1 : 0) << result.err;
    expect_gone(pids);
  }
  const int64_t step =
      *list_checkpoints(real_files(), run.path("ended/runs/000/checkpoints")).rbegin();
  auto total = more;
  total.push_back(fmt::format("schedule.total_steps={}", step + 5));
  const CommandResult last = run_command(with_ranks(run.arguments("ended", total), 2));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr(fmt::format("going on from step {}", step)));
  EXPECT_EQ(count_of(last.out, "best eval_loss"), 1) << last.out;
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

TEST_F(Ranks, BeginAgainWithFewerWhereProcessorsAreGone) {
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

// An agent whose memory of past steps, here on disk, lies with two processes.
TEST_F(Ranks, LearnersOfAnAgentHaveTheBitsOfOne) {
  const TemporaryFolder folder;
  const std::string config = folder / "agent.yaml";
  write_file_atomic(real_files(), config,
                    "algorithm: {type: dqn, buffer_size: 400, learning_starts: 64, batch_size: 16, "
                    "prioritised: true, parts: 2}\n"
                    "environment: {name: cartpole, num_envs: 4}\n"
                    "network: {hidden: [16]}\n"
                    "schedule: {total_env_steps: 800}\n"
                    "eval: {interval: none}\n");
  const auto train = [&](const std::string& name, std::vector<std::string> arguments) {
    const std::string directory = folder / name;
    arguments.insert(arguments.begin(), {"--config", config, "run.output_dir=" + directory});
    const CommandResult done = run_command(arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    return newest_files(directory);
  };
  auto one = train("one", {});
  auto two = train(
      "two", with_ranks({"distribution.policy=multi_learner", "algorithm.buffer_on=disk"}, 2));
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(one[file] == two[file]) << file;
  }
  EXPECT_EQ(real_files().list(folder / "two/replay"), (std::vector<std::string>{"0000", "0001"}));
}

TEST_F(Ranks, EndAtOnceWhereNothingIsToBeSavedYet) {
  const SmallRun run;
  RunningCommand command(with_ranks(run.arguments("run", {kLong}), 2));
  command.signal(SIGINT);
  const CommandResult result = command.wait();
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.err, "");
}

// In steps and in saves, of which there is one after another here.
TEST_F(Ranks, EndWhateverSignalTakesOne) {
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
TEST_F(Ranks, DoNotWaitForAnMpirunThatDoesNotEnd) {
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

TEST_F(Ranks, EndWhereFilesMayNotGrow) {
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
