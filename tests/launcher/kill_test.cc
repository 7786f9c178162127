// kill -9 at random moments, also inside a save: the run that goes on is, bit for bit, the one that was never stopped.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <map>
#include <sstream>

#include "core/base/json.h"
#include "core/base/rng.h"
#include "core/train/checkpoint.h"
#include "core/train/metrics_file.h"
#include "tests/core/train/memory_disk.h"
#include "tests/launcher/save_watch.h"

namespace mstrain {
namespace {

// The last row of each step and kind, apart from times. A killed run may have taken rows back, never changed them.
std::map<std::string, std::string> rows_of(const std::string& directory) {
  std::map<std::string, std::string> out;
  for (Json row : read_metrics(real_files(), join_path(directory, kMetricsFile))) {
    for (const char* key : {"time", "step_seconds", "tokens_per_second", "eval_seconds",
                            "busy_processors", "resident_bytes"}) {
      row.erase(key);
    }
    const std::string key =
        row["step"].dump() + (row.contains("eval_loss") ? " evaluation" : " training");
    EXPECT_TRUE(out.emplace(key, row.dump()).second) << key << " stands there twice";
  }
  return out;
}

// Long enough that no run ends before its signal comes.
constexpr const char* kSteps =
    kSanitized ? "schedule.total_steps=1500" : "schedule.total_steps=4000";

// A run to be killed.
class Victim {
 public:
  Victim(const std::vector<std::string>& arguments, const std::string& directory)
      : watch_(directory), command_(arguments) {}

  void await_checkpoints(size_t count) { watch_.await_checkpoints(command_, count); }
  // Stops the process while it is inside a save.
  void stop_inside_a_save(double delay) {
    watch_.stop_inside_a_save(command_, delay, [this](int number) { command_.signal(number); });
  }
  void kill() {
    ASSERT_FALSE(command_.ended()) << "the run ended before it was killed: " << command_.wait().err;
    command_.signal(SIGKILL);
    EXPECT_EQ(command_.wait().status, 128 + SIGKILL);
  }

 private:
  SaveWatch watch_;
  RunningCommand command_;
};

TEST(Kill, AtAnyMomentChangesNothing) {
  const SmallRun run;
  // Every other one inside a save; two ways of writing them.
  const int64_t kills = std::max<int64_t>(4, repetitions(20));
  const std::vector<std::string> more{kSteps, "checkpoint.interval=10", "eval.interval=1000",
                                      "log.interval=25"};
  ASSERT_EQ(run_command(run.arguments("straight", more)).status, 0);

  Rng rng(20260726);
  for (int64_t i = 0; i < kills && !HasFatalFailure(); ++i) {
    // Checkpoints are written beside training, or while it waits.
    std::vector<std::string> how = more;
    how.emplace_back(i % 4 < 2 ? "checkpoint.async=true" : "checkpoint.async=false");
    Victim victim(run.arguments("killed", how), run.path("killed"));
    if (i % 2 == 0) {
      // The first dies before anything is saved, others after some steps and within the next ones.
      victim.await_checkpoints(i == 0 ? 0 : rng.below(5));
      sleep(rng.uniform() * 0.03);
    } else {
      victim.await_checkpoints(rng.below(3));
      victim.stop_inside_a_save(rng.uniform() * 0.0005);
    }
    const std::vector<int64_t> before = checkpoints_of(run.path("killed"));
    victim.kill();
    // What was there is there, sound.
    const std::vector<int64_t> after = checkpoints_of(run.path("killed"));
    ASSERT_TRUE(before.empty() || (!after.empty() && after.back() >= before.back()));
    ASSERT_EQ(newest_checkpoint(real_files(), run.path("killed/checkpoints"), false).has_value(),
              !after.empty());
  }
  const CommandResult last = run_command(run.arguments("killed", more));
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, testing::HasSubstr("going on from step"));

  EXPECT_EQ(newest_files(run.path("killed")), newest_files(run.path("straight")));
  EXPECT_EQ(rows_of(run.path("killed")), rows_of(run.path("straight")));
}

TEST(Kill, IsToldByWhoeverLooksAtTheRun) {
  const SmallRun run;
  const std::string directory = run.path("killed");
  RunningCommand command(run.arguments(
      "killed", {"schedule.total_steps=2000000000", "checkpoint.interval=1000000000"}));
  const std::string metrics = join_path(directory, "metrics.jsonl");
  while (!real_files().exists(metrics) || real_files().file_size(metrics) == 0) {
    ASSERT_FALSE(command.ended()) << command.wait().err;
    sleep(0.002);
  }
  EXPECT_THAT(run_command({"inspect", directory}).out, testing::HasSubstr("running at step "));
  command.signal(SIGKILL);
  command.wait();
  EXPECT_THAT(run_command({"inspect", directory}).out,
              testing::ContainsRegex("status +stopped at step [1-9][0-9]* of 2000000000: without a "
                                     "word; the same command goes on"));
  const std::string page = run.path("it.html");
  const CommandResult report = run_command({"report", directory, "--output", page});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(real_files().read(page), testing::HasSubstr("\"status\":\"stopped\""));
}

TEST(Interrupt, SavesAndExits130) {
  const SmallRun run;
  const std::vector<std::string> more{kSteps, "checkpoint.interval=100000", "eval.interval=100000"};
  ASSERT_EQ(run_command(run.arguments("straight", more)).status, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string metrics = run.path("stopped/metrics.jsonl");
    const auto written = [&]() -> uint64_t {
      return real_files().exists(metrics) ? real_files().file_size(metrics) : 0;
    };
    const uint64_t before = written();
    RunningCommand command(run.arguments("stopped", more));
    while (!command.ended() && written() < before + 2000) {  // well into its training
      sleep(0.002);
    }
    command.signal(signal);
    const CommandResult result = command.wait();
    ASSERT_EQ(result.status, 130) << result.err;
    EXPECT_THAT(result.out, testing::HasSubstr("the same command goes on"));
  }
  ASSERT_EQ(run_command(run.arguments("stopped", more)).status, 0);
  EXPECT_EQ(newest_files(run.path("stopped")), newest_files(run.path("straight")));
  EXPECT_EQ(rows_of(run.path("stopped")), rows_of(run.path("straight")));
}

// As after `| head -1`: the run goes on, and its log; what only prints ends as programs do.
TEST(ClosedOutput, EndsNoRun) {
  const SmallRun run;
  std::string words;
  for (const std::string& word : run.arguments("run")) {
    words += " '" + word + "'";
  }
  const std::string shell = fmt::format(
      "set -o pipefail; '{}'{} 2>&1 | head -n 1; {{ '{}' inspect "
      "'{}'; echo $? >&2; }} | true",
      MSTRAIN_COMMAND, words, MSTRAIN_COMMAND, run.path("run"));
  const CommandResult result = RunningCommand({"-c", shell}, "bash").wait();
  const Json record = parse_json(real_files().read(run.path("run/run.json")), "run.json");
  EXPECT_EQ(record["status"], "finished");
  EXPECT_EQ(record["step"], 40);
  EXPECT_THAT(real_files().read(run.path("run/log.txt")), testing::HasSubstr("step 40"));
  EXPECT_THAT(result.err, testing::AnyOf("0\n", "141\n"));
}

// A signal that comes while the command begins counts as soon as it can.
TEST(Interrupt, ThatComesFirstOfAllIsStatus130) {
  const pid_t pid = fork();
  if (pid == 0) {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigprocmask(SIG_BLOCK, &both, nullptr);
    raise(SIGINT);
    execl(MSTRAIN_COMMAND, "mstrain", "--help", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << status;
}

// Nothing that would be saved exists before training begins: opening and planning need not be waited for.
TEST(Interrupt, BeforeTrainingEndsAtOnce) {
  const SmallRun run;
  const std::string config = run.path("pipe.yaml");
  ASSERT_EQ(mkfifo(config.c_str(), 0600), 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningCommand command({"--config", config, "--dry-run"});
    int writer = -1;  // opens as soon as the command reads
    while (writer < 0) {
      ASSERT_FALSE(command.ended()) << command.wait().err;
      writer = open(config.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      sleep(0.001);
    }
    command.signal(signal);
    EXPECT_EQ(command.wait().status, 130);
    close(writer);
  }
}

// Processor time that a process has used, in seconds.
double processor_seconds(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string field;
  for (int i = 0; i < 11; ++i) {
    fields >> field;
  }
  double ticks = 0;
  fields >> ticks;
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

TEST(Interrupt, EndsALongPlanAtOnce) {
  const SmallRun run;
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningCommand command({"--config", run.config(), "--dry-run", "model.num_layers=4096"});
    while (processor_seconds(command.pid()) < 0.5) {  // all else takes no time
      ASSERT_FALSE(command.ended()) << command.wait().err;
      sleep(0.002);
    }
    command.signal(signal);
    EXPECT_EQ(command.wait().status, 130);
  }
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
