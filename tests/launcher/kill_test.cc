// kill -9 at random moments, also inside a save: the run that goes on is, bit for bit, the one that was never stopped.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "core/base/json.h"
#include "core/base/rng.h"
#include "core/train/checkpoint.h"
#include "core/train/metrics_file.h"
#include "tests/core/train/memory_disk.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

using std::chrono::steady_clock;

// The last row of each step and kind, apart from times. A killed run may have taken rows back, never changed them.
std::map<std::string, std::string> rows_of(const std::string& directory) {
  std::map<std::string, std::string> out;
  for (Json row : read_metrics(real_files(), join_path(directory, kMetricsFile))) {
    for (const char* key : {"time", "step_seconds", "tokens_per_second", "eval_seconds"}) {
      row.erase(key);
    }
    const std::string key =
        row["step"].dump() + (row.contains("eval_loss") ? " evaluation" : " training");
    EXPECT_TRUE(out.emplace(key, row.dump()).second) << key << " stands there twice";
  }
  return out;
}

std::map<std::string, std::string> newest_files(const std::string& directory) {
  const auto folder = newest_checkpoint(real_files(), join_path(directory, "checkpoints"), false);
  EXPECT_TRUE(folder.has_value());
  std::map<std::string, std::string> out;
  for (const std::string& name : real_files().list(*folder)) {
    out[name] = real_files().read(join_path(*folder, name));
  }
  return out;
}

bool is_saving(const std::string& directory) {
  const std::string checkpoints = join_path(directory, "checkpoints");
  if (!real_files().is_directory(checkpoints)) {
    return false;
  }
  for (const std::string& name : real_files().list(checkpoints)) {
    if (name.find(".tmp-") != std::string::npos) {
      return true;
    }
  }
  return false;
}

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

TEST(Kill, AtAnyMomentChangesNothing) {
  const SmallRun run;
  constexpr int kKills = 20;
  // Long enough that a process cannot finish before its turn to die comes.
  const std::vector<std::string> more{"schedule.total_steps=6000", "checkpoint.interval=10",
                                      "eval.interval=1500", "log.interval=25"};
  const auto begin = steady_clock::now();
  ASSERT_EQ(run_command(run.arguments("straight", more)).status, 0);
  const double whole = std::chrono::duration<double>(steady_clock::now() - begin).count();

  Rng rng(20260726);
  std::set<size_t> ends;
  int saves_hit = 0;
  // Whether a kill meets a save depends on the machine's load, so that the last ones try until one did.
  for (int i = 0; i < kKills || (saves_hit == 0 && i < 2 * kKills); ++i) {
    RunningCommand command(run.arguments("killed", more));
    if (i < kKills && i % 2 == 0) {
      // A quarter of the run's share: the machine may be faster now than it was for the straight run.
      sleep(0.02 + rng.uniform() * whole / (4 * kKills));
    } else {
      // Inside a save, some time after the process has begun to train. A leftover of the kill before does not count.
      sleep(0.02 + rng.uniform() * 0.02);
      const auto deadline = steady_clock::now() + std::chrono::milliseconds(250);
      while (!is_saving(run.path("killed")) && steady_clock::now() < deadline) {
      }
      sleep(rng.uniform() * 0.0005);
    }
    ASSERT_FALSE(command.ended()) << "the run ended before it was killed: " << i;
    command.signal(SIGKILL);
    EXPECT_EQ(command.wait().status, 128 + SIGKILL);
    saves_hit += is_saving(run.path("killed")) ? 1 : 0;
  }
  const CommandResult last = run_command(run.arguments("killed", more));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, testing::HasSubstr("going on from step"));
  EXPECT_GE(saves_hit, 1) << "no kill met a save";

  EXPECT_EQ(newest_files(run.path("killed")), newest_files(run.path("straight")));
  EXPECT_EQ(rows_of(run.path("killed")), rows_of(run.path("straight")));
}

TEST(Interrupt, SavesAndExits130) {
  const SmallRun run;
  const std::vector<std::string> more{"schedule.total_steps=4000", "checkpoint.interval=100000",
                                      "eval.interval=100000"};
  ASSERT_EQ(run_command(run.arguments("straight", more)).status, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningCommand command(run.arguments("stopped", more));
    const std::string metrics = run.path("stopped/metrics.jsonl");
    while (!command.ended() &&
           (!real_files().exists(metrics) || real_files().file_size(metrics) < 2000)) {
      sleep(0.002);
    }
    sleep(0.1);
    command.signal(signal);
    const CommandResult result = command.wait();
    ASSERT_EQ(result.status, 130) << result.err;
    EXPECT_THAT(result.out, testing::HasSubstr("the same command goes on"));
  }
  ASSERT_EQ(run_command(run.arguments("stopped", more)).status, 0);
  EXPECT_EQ(newest_files(run.path("stopped")), newest_files(run.path("straight")));
  EXPECT_EQ(rows_of(run.path("stopped")), rows_of(run.path("straight")));
}

TEST(Interrupt, ASecondSignalEndsAtOnce) {
  const SmallRun run;
  RunningCommand command(run.arguments("run", {"schedule.total_steps=2000000000"}));
  while (!real_files().exists(run.path("run/metrics.jsonl"))) {
    ASSERT_FALSE(command.ended()) << command.wait().err;
    sleep(0.002);
  }
  command.signal(SIGSTOP);  // so that the first signal is not answered before the second comes
  command.signal(SIGINT);
  command.signal(SIGCONT);
  sleep(0.001);
  command.signal(SIGINT);
  const int status = command.wait().status;
  EXPECT_TRUE(status == 130 || status == 128 + SIGINT) << status;
}

TEST(Damage, TheCheckpointBeforeIsUsedAndTheResultIsTheSame) {
  const SmallRun run;
  ASSERT_EQ(run_command(run.arguments("run")).status, 0);
  const auto straight = newest_files(run.path("run"));
  const auto rows = rows_of(run.path("run"));
  const std::string model = run.path("run/checkpoints/step-00000040/model.safetensors");
  std::string bytes = real_files().read(model);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 0x10);
  write_text(model, bytes);
  const CommandResult result = run_command(run.arguments("run"));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, testing::HasSubstr("step-00000040: model.safetensors does not match its "
                                             "digest; going back to step-00000030"));
  EXPECT_EQ(newest_files(run.path("run")), straight);
  EXPECT_EQ(rows_of(run.path("run")), rows);
}

}  // namespace
}  // namespace mstrain
