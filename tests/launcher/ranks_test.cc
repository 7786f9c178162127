// Several processes that share a run, as a user meets them: --ranks and mpirun, and who says what.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>

#include "core/base/json.h"
#include "core/train/checkpoint.h"
#include "core/train/run_directory.h"
#include "tests/launcher/ranks.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Ranks : public ManyProcesses {};

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
  const CommandResult evaluated = run_command({"eval", "--checkpoint", run.path("stages")});
  EXPECT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, testing::HasSubstr("eval_loss"));
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

TEST_F(Ranks, LookForALayoutOfASweepAndKeepIt) {
  const SmallRun run;
  const auto go_on = [&](const std::string& steps) {
    const CommandResult result = run_command(with_ranks(
        run.arguments("sweep", {"parallel.plan=auto", "sweep.keys.optimizer.lr=[1e-3, 1e-2]",
                                "schedule.total_steps=" + steps}),
        2));
    EXPECT_EQ(result.status, 0) << result.err;
    return count_of(result.err, "parallel.plan: auto takes ");
  };
  EXPECT_EQ(go_on("10"), 1);
  EXPECT_EQ(go_on("20"), 0);
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
                        {{"data.train=nowhere.txt"}, 2, "nowhere.txt"},
                        {{"data.train=nowhere.txt"}, 2, "nowhere.txt"},
                        {{"data.train=nowhere.txt"}, 2, "nowhere.txt"},
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
      {{"--ranks", "2", "--dry-run", "parallel.tensor=2"}, "make up 2 together"},
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

}  // namespace
}  // namespace mstrain
