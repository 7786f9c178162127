// kill -9 of any rank at random moments, also inside a save, and on under another layout: the run comes to the bytes of the one
// that one rank made undisturbed.
#include <gmock/gmock.h>

#include "core/base/rng.h"
#include "tests/launcher/job.h"
#include "tests/launcher/save_watch.h"

namespace mstrain {
namespace {

TEST(KilledRanks, ChangeNothingUnderAnyLayout) {
  const Environment leaks("ASAN_OPTIONS", "detect_leaks=0");  // those of MPI itself
  const SmallRun run;
  const int64_t kills = repetitions(4, 20);
  // Steps do not depend on how many there will be: how far a run gets before it is killed is the machine's to decide.
  const std::vector<std::string> more{"batch={global: 12, micro: 1}",
                                      "parallel.zero.min_numel=0",
                                      "schedule={type: constant, min_lr_ratio: 0}",
                                      "checkpoint.interval=10",
                                      "eval.interval=1000000",
                                      "eval.prompts=[]"};
  const auto with = [&](std::initializer_list<std::string> others) {
    std::vector<std::string> all = more;
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  Rng rng(20260801);
  for (int64_t i = 0; i < kills && !testing::Test::HasFatalFailure(); ++i) {
    // Numbers of ranks, stages and ways to save change at different paces.
    const int ranks = 2 + static_cast<int>(i % 3);
    const auto stage = static_cast<int>((3 + i) % 4);
    const bool is_async = i % 4 < 2;
    const bool is_inside_a_save = i % 2 == 1;
    const auto victim = static_cast<int>(rng.below(static_cast<uint64_t>(ranks)));
    SCOPED_TRACE(fmt::format("kill {}: rank {} of {}, stage {}, {}{}", i, victim, ranks, stage,
                             is_async ? "async" : "waiting",
                             is_inside_a_save ? ", inside a save" : ""));
    const SaveWatch watch(run.path("killed"));
    RunningJob job(
        run.arguments("killed", with({kLong, fmt::format("parallel.zero.stage={}", stage),
                                      fmt::format("checkpoint.async={}", is_async)})),
        ranks, run.path("killed"));
    watch.await_checkpoints(job, rng.below(4) + 1);
    const std::vector<pid_t> pids = job.all_ranks();
    const auto signal = [&](int number) { kill(pids[0], number); };  // the rank that writes
    if (is_inside_a_save) {
      watch.stop_inside_a_save(job, rng.uniform() * 0.001, signal);
    } else {
      sleep(rng.uniform() * 0.05);
    }
    ASSERT_EQ(kill(pids[static_cast<size_t>(victim)], SIGKILL), 0);
    if (is_inside_a_save) {
      signal(SIGCONT);
    }
    const CommandResult result = job.wait();
    ASSERT_EQ(result.status, 1) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr(fmt::format("rank {} (pid {}", victim,
                                                           pids[static_cast<size_t>(victim)])));
    expect_gone(pids);
    ASSERT_TRUE(newest_checkpoint(real_files(), run.path("killed/checkpoints"), false).has_value());
  }
  const std::string total =
      fmt::format("schedule.total_steps={}", checkpoints_of(run.path("killed")).back() + 5);
  const CommandResult last =
      run_command(with_ranks(run.arguments("killed", with({total, "parallel.zero.stage=3"})), 2));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, testing::HasSubstr("going on from step"));
  ASSERT_EQ(run_command(run.arguments("straight", with({total}))).status, 0);
  EXPECT_EQ(newest_files(run.path("killed")), newest_files(run.path("straight")));
}

}  // namespace
}  // namespace mstrain
