// What plans for machines that are not here count of a rank's memory is what the dry run of the same layout counts.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/base/json.h"
#include "tests/launcher/command.h"

namespace mstrain {
namespace {

struct CountedRun {
  const char* config;
  int ranks;
  std::vector<std::string> keys;
};

Json planned_memory(const CountedRun& run) {
  std::vector<std::string> arguments{"plan",
                                     "--config",
                                     shipped(run.config),
                                     "--cluster",
                                     shipped("clusters/a100_80gb_x8.yaml"),
                                     "--json",
                                     "cluster.device.reserved_gb=0",
                                     fmt::format("cluster.gpus_per_node={}", run.ranks)};
  arguments.insert(arguments.end(), run.keys.begin(), run.keys.end());
  const CommandResult result = run_command(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  return parse_json(result.out, "plan").at("memory");
}

// Bytes by the names of the lines that have them.
std::map<std::string, int64_t> dry_memory(const CountedRun& run) {
  std::vector<std::string> arguments{"--config", shipped(run.config), "--dry-run", "--offline",
                                     "memory.limit_gb=80"};
  arguments.insert(arguments.end(), run.keys.begin(), run.keys.end());
  const CommandResult result = run_command(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  std::map<std::string, int64_t> out;
  std::string text = result.out.substr(result.out.find("memory, in bytes"));
  std::erase(text, ',');
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t bytes = 0;
    if (words >> name >> bytes) {
      out.emplace(name, bytes);
    }
  }
  return out;
}

TEST(PlanMemory, IsCountedAsByTheDryRunOfTheLayout) {
  const std::string lora = "model.lora.rank=8";
  const std::string four = "batch.micro=4";
  const std::string waits = "checkpoint.async=false";
  const std::string copies = "checkpoint.async=true";
  const std::string none = "model.init.from=null";
  const std::string ids = "model.vocab_size=16";
  const CountedRun runs[] = {
      {"gpt_124m.yaml", 1, {lora, four, waits, "batch.global=8"}},
      {"gpt_124m.yaml", 4, {lora, four, waits, "parallel.data=4", "parallel.zero.stage=3"}},
      {"gpt_124m.yaml", 2, {lora, four, waits, "parallel.tensor=2"}},
      {"gpt_124m.yaml", 2, {four, copies, "parallel.tensor=2"}},
      {"gpt_124m.yaml", 2, {four, copies, "parallel.pipeline=2", "eval.prompts=[Once]"}},
      {"gpt_124m.yaml", 4, {four, copies, "parallel.data=2", "parallel.context=2"}},
      {"dpo_addition.yaml", 1, {four, copies, none, ids}},
      {"grpo_addition.yaml", 1, {copies, none, ids, "batch.micro=64"}}};
  for (const CountedRun& run : runs) {
    SCOPED_TRACE(fmt::format("{} {}", run.config, fmt::join(run.keys, " ")));
    const Json planned = planned_memory(run);
    std::map<std::string, int64_t> dry = dry_memory(run);
    for (const char* part : {"frozen", "outside"}) {
      EXPECT_EQ(planned.at(part), dry[part]) << part;
    }
    // Of a pipeline's stages another may be the largest.
    for (const char* part : {"weights", "snapshot"}) {
      EXPECT_NEAR(planned.at(part), dry[part], 0.02 * static_cast<double>(dry[part])) << part;
    }
    // Of few layers, without gaps between buffers.
    const double evaluation = planned.at("evaluation");
    EXPECT_GT(evaluation, 0.5 * static_cast<double>(dry["evaluation"]));
    EXPECT_LT(evaluation, 1.3 * static_cast<double>(dry["evaluation"]));
  }
}

// Frozen weights take the room that the search would have given to larger micro-batches.
TEST(PlanMemory, OfALayoutThatIsSearchedIsThereInTheDryRun) {
  const SmallRun folder;
  const std::string file = folder.path("plan.yaml");
  const std::vector<std::string> run{"--config",
                                     shipped("gpt_355m.yaml"),
                                     "model.lora.rank=8",
                                     "precision.params=bf16",
                                     "memory.limit_gb=4.3",
                                     "batch.global=64"};
  std::vector<std::string> plan{"plan",
                                "--cluster",
                                shipped("clusters/a100_80gb_x8.yaml"),
                                "--write-plan",
                                file,
                                "cluster.gpus_per_node=2",
                                "cluster.device.reserved_gb=0",
                                "parallel.plan=auto"};
  plan.insert(plan.end(), run.begin(), run.end());
  const CommandResult found = run_command(plan);
  ASSERT_EQ(found.status, 0) << found.err;
  std::vector<std::string> dry = run;
  dry.insert(dry.end(), {"--dry-run", "--offline", "parallel.plan=" + file, "run.device=cuda",
                         "run.device_description=" + shipped("devices/a100_80gb.yaml")});
  const CommandResult runs = run_command(dry);
  EXPECT_EQ(runs.status, 0) << runs.err;
}

}  // namespace
}  // namespace mstrain
