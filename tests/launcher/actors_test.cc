// Actors that run free as processes: what ends them, who says so, and how they go on.
#include <gmock/gmock.h>

#include "core/train/checkpoint.h"
#include "core/train/metrics_file.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/launcher/ranks.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

class FreeProcesses : public ManyProcesses {
 protected:
  std::vector<std::string> arguments(const std::vector<std::string>& changes) const {
    const std::string file = folder_ / "free.yaml";
    write_file_atomic(real_files(), file,
                      "algorithm: {type: impala, steps: 16}\n"
                      "environment: {name: cartpole, num_envs: 8}\n"
                      "network: {hidden: [16]}\n"
                      "distribution: {policy: async_actors, max_staleness: 3, timeout_s: 2}\n"
                      "checkpoint: {interval: 20000}\n"
                      "eval: {interval: none}\n"
                      "log: {interval: 200}\n");
    std::vector<std::string> out{"--config", file, "run.output_dir=" + run()};
    out.insert(out.end(), changes.begin(), changes.end());
    return out;
  }
  std::string run() const { return folder_ / "run"; }

  TemporaryFolder folder_;
};

TEST_F(FreeProcesses, NameOneThatIsKilledOrStoppedAndGoOnFromTheNewestCheckpoint) {
  for (const int how : {SIGKILL, SIGSTOP}) {
    RunningJob job(arguments({"schedule.total_env_steps=100000000000"}), 3, run());
    const std::string checkpoints = join_path(run(), "checkpoints");
    while (!real_files().exists(checkpoints) ||
           list_checkpoints(real_files(), checkpoints).empty()) {
      ASSERT_FALSE(job.ended());
      sleep_briefly();
    }
    job.await_steps();
    const std::vector<pid_t> pids = job.all_ranks();
    kill(pids[2], how);
    const CommandResult result = job.wait();
    EXPECT_EQ(result.status, 1);
    // One that is stopped where all ranks meet is named there.
    const auto named = HasSubstr(fmt::format("rank 2 (pid {} on ", pids[2]));
    if (how == SIGKILL) {
      EXPECT_THAT(result.err, named);
    } else {
      EXPECT_THAT(
          result.err,
          testing::AnyOf(named, HasSubstr("rank 2 has brought no trajectories within 2 s")));
    }
    expect_gone(pids);
  }
  const int64_t step = list_checkpoints(real_files(), join_path(run(), "checkpoints")).back();
  const CommandResult last = run_command(
      with_ranks(arguments({fmt::format("schedule.total_env_steps={}", step + 5000)}), 3));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr(fmt::format("going on from step {}", step)));
  double most = 0;
  for (const Json& row : read_metrics(real_files(), join_path(run(), kMetricsFile))) {
    most = std::max(most, row.value("staleness", 0.0));
  }
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 3);
  const CommandResult none = run_command({"play", "--checkpoint", run(), "--episodes", "0"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("--episodes: expected at least 1, found 0"));
}

}  // namespace
}  // namespace mstrain
