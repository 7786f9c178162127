// What --dry-run promises against what the system says of the process that then runs.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "core/base/json.h"
#include "tests/launcher/job.h"
#include "tests/suites/transformer/pictures.h"

namespace mstrain {
namespace {

// Anonymous memory that a process has in use; 0 once it has ended.
int64_t anonymous_bytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) {
      return std::stoll(line.substr(8)) * 1024;
    }
  }
  return 0;
}

// The number after `name` in the plan: "  total   1,234 …".
int64_t planned(const std::string& plan, const std::string& name) {
  const size_t line = plan.find("\n  " + name + " ");
  EXPECT_NE(line, std::string::npos) << plan;
  size_t at = plan.find_first_of("0123456789", line);
  std::string digits;
  for (; plan[at] == ',' || std::isdigit(static_cast<unsigned char>(plan[at])); ++at) {
    if (plan[at] != ',') {
      digits += plan[at];
    }
  }
  return std::stoll(digits);
}

double planned_total(std::vector<std::string> arguments) {
  arguments.emplace_back("--dry-run");
  const CommandResult plan = run_command(arguments);
  EXPECT_EQ(plan.status, 0) << plan.err;
  return static_cast<double>(planned(plan.out, "total"));
}

// With the most anonymous memory that it had in use.
std::pair<CommandResult, int64_t> run_watched(const std::vector<std::string>& arguments) {
  RunningCommand command(arguments);
  int64_t peak = 0;
  while (!command.ended()) {
    peak = std::max(peak, anonymous_bytes(command.pid()));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {command.wait(), peak};
}

class MemoryOfARun : public testing::TestWithParam<const char*> {};

TEST_P(MemoryOfARun, IsWhatTheDryRunSays) {
  if (kSanitized || !std::filesystem::exists("/proc/self/status")) {
    GTEST_SKIP() << "the process's memory is not that of its program alone";
  }
  const SmallRun run;
  const std::vector<std::string> arguments = run.arguments(
      "run", {"model.hidden_size=128", "model.num_layers=6", "model.max_position_embeddings=256",
              "data.seq_length=256", "batch.global=16", "batch.micro=16", "run.threads=2",
              "schedule.total_steps=3", "schedule.warmup_steps=1", "eval.prompts=[]",
              std::string("memory.recompute=") + GetParam()});
  std::vector<std::string> dry = arguments;
  dry.push_back("--dry-run");
  const CommandResult plan = run_command(dry);
  ASSERT_EQ(plan.status, 0) << plan.err;
  const auto total = static_cast<double>(planned(plan.out, "total"));
  EXPECT_GT(planned(plan.out, "arena"), 40e6);

  const auto [result, peak] = run_watched(arguments);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NEAR(static_cast<double>(peak), total, 0.05 * total + (64 << 20)) << plan.out;
}

// The system begins a process's peak, as getrusage() has it, with that of whoever started it.
TEST(Memory, AtItsPeakIsThatOfTheRunAlone) {
  if (kSanitized || !std::filesystem::exists("/proc/self/status")) {
    GTEST_SKIP() << "the process's memory is not that of its program alone";
  }
  constexpr int64_t kLarge = int64_t{512} << 20;
  const std::vector<char> large(kLarge, 1);
  const SmallRun run;
  const CommandResult result =
      run_command(run.arguments("run", {"schedule.total_steps=2", "schedule.warmup_steps=1"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string record = run.path("run/run.json");
  EXPECT_LT(
      parse_json(real_files().read(record, 1 << 20), record).at("peak_memory_bytes").get<int64_t>(),
      kLarge / 2);
}

// Batches of images are large beside a small model, and those read ahead are more than the one that is computed.
TEST(Memory, OfImagesIsWhatTheDryRunSays) {
  if (kSanitized || !std::filesystem::exists("/proc/self/status")) {
    GTEST_SKIP() << "the process's memory is not that of its program alone";
  }
  const TemporaryFolder folder;
  Rng rng(1, 1);
  write_pictures(folder / "pictures", {"red", "green"}, 40, Image(8, 8, 3), rng);
  write_text(folder / "vit.yaml",
             "run: {name: vit, threads: 2}\n"
             "model: {type: vit, image_size: 384, patch_size: 64, hidden_size: 32, num_layers: 1,\n"
             "        num_attention_heads: 2, ffn_hidden_size: 32}\n"
             "data: {train: " +
                 (folder / "pictures") +
                 ", split: 0.5}\n"
                 "batch: {global: 40, micro: 20}\n"
                 "schedule: {warmup_steps: 1, total_steps: 4}\n"
                 "eval: {interval: 4}\n");
  const std::vector<std::string> arguments{"--config", folder / "vit.yaml",
                                           "run.output_dir=" + (folder / "run")};
  const double total = planned_total(arguments);
  const auto [result, peak] = run_watched(arguments);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NEAR(static_cast<double>(peak), total, 0.05 * total + (64 << 20));
}

// What runs of agents are said to take is a bound, from which memory.limit_gb refuses: not one that keeps out what would fit well.
TEST(Memory, OfAgentsIsNoMoreThanTheDryRunSaysAndNotMuchLess) {
  if (kSanitized || !std::filesystem::exists("/proc/self/status")) {
    GTEST_SKIP() << "the process's memory is not that of its program alone";
  }
  const TemporaryFolder folder;
  for (const std::string activation : {"tanh", "silu"}) {
    write_text(folder / "ppo.yaml",
               "run: {name: ppo, threads: 1}\n"
               "algorithm: {type: ppo, steps: 64, epochs: 1, minibatches: 1}\n"
               "environment: {name: cartpole, num_envs: 256}\n"
               "network: {hidden: [512, 512], activation: " +
                   activation +
                   "}\n"
                   "schedule: {total_env_steps: 16384}\n"
                   "eval: {interval: none}\n");
    std::vector<std::string> arguments{"--config", folder / "ppo.yaml",
                                       "run.output_dir=" + (folder / activation), "--dry-run"};
    const std::string plan = run_command(arguments).out;
    const size_t last = plan.rfind(" bytes\n");
    ASSERT_NE(last, std::string::npos) << plan;
    std::string digits = plan.substr(plan.rfind(' ', last - 1) + 1, last);
    std::erase(digits, ',');
    const double total = std::stod(digits);
    arguments.pop_back();
    const auto [result, peak] = run_watched(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_LT(static_cast<double>(peak), total + (64 << 20)) << activation;
    EXPECT_GT(static_cast<double>(peak), 0.45 * total) << activation;
  }
}

using Keys = std::vector<std::string>;
class MemoryOfRanks : public testing::TestWithParam<Keys> {};

TEST_P(MemoryOfRanks, IsWhatTheDryRunSaysOfEach) {
  if (kSanitized || !std::filesystem::exists("/proc/self/status")) {
    GTEST_SKIP() << "the processes' memory is not that of their programs alone";
  }
  const SmallRun run;
  std::vector<std::string> arguments = run.arguments(
      "run", {"model.hidden_size=512", "model.num_layers=8", "model.max_position_embeddings=64",
              "data.seq_length=64", "batch.global=8", "batch.micro=4", "schedule.total_steps=3",
              "schedule.warmup_steps=1", "eval.prompts=[]", "checkpoint.interval=100",
              "checkpoint.async=false"});
  arguments.insert(arguments.end(), GetParam().begin(), GetParam().end());
  // Without ranks the plan is that of the one that needs most.
  std::vector<std::string> dry = arguments;
  if (GetParam()[0].starts_with("parallel.zero")) {
    dry.emplace_back("parallel.data=2");
  }
  const double most = planned_total(dry);
  EXPECT_GT(most, 190e6);

  RunningJob job(arguments, 2, run.path("run"));
  std::map<int, pid_t> pids;
  std::map<int, int64_t> peaks;
  while (!job.ended()) {
    for (const int rank : {0, 1}) {
      if (!pids.contains(rank)) {
        if (const auto pid = job.find_rank(rank)) {
          pids[rank] = *pid;
        }
      } else {
        peaks[rank] = std::max(peaks[rank], anonymous_bytes(pids[rank]));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const CommandResult result = job.wait();
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string record = run.path("run/run.json");
  const Json ranks = parse_json(real_files().read(record, 1 << 20), record).at("ranks");
  double largest = 0;
  for (const int rank : {0, 1}) {
    const auto total = ranks.at(static_cast<size_t>(rank)).at("planned_memory_bytes").get<double>();
    EXPECT_NEAR(static_cast<double>(peaks[rank]), total, 0.05 * total + (64 << 20)) << rank;
    largest = std::max(largest, total);
  }
  EXPECT_NEAR(largest, most, 0.01 * most);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, MemoryOfRanks,
    testing::Values(Keys{"parallel.zero.stage=0"}, Keys{"parallel.zero.stage=3"},
                    Keys{"parallel.tensor=2"}, Keys{"parallel.pipeline=2"},
                    // A gradient as large as the table on its way from end to end.
                    Keys{"parallel.pipeline=2", "parallel.schedule=gpipe", "model.vocab_size=50000",
                         "model.num_layers=2", "data.seq_length=16", "batch.micro=1"}));

INSTANTIATE_TEST_SUITE_P(Recompute, MemoryOfARun, testing::Values("none", "full"));

}  // namespace
}  // namespace mstrain
