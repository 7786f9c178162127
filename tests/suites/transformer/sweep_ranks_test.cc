// Sweeps whose runs many ranks share are those of one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/train/sweep.h"
#include "suites/run/sweep_ranks.h"
#include "tests/core/base/message_of.h"
#include "tests/suites/transformer/shared_weights.h"

namespace mstrain {
namespace {

class SweepOnRanks : public SharedWeights {
 protected:
  YamlNode tree_of_sweep(const std::string& name, const std::string& sweep,
                         const std::string& more) {
    return parse_yaml(fmt::format("run: {{name: sweep, output_dir: {}, threads: 1}}\n{}\n"
                                  "schedule: {{type: constant, total_steps: 8}}\n"
                                  "parallel: {{zero: {{min_numel: 0}}{}}}\nsweep: {}\n",
                                  folder_ / name, gpt(), more, sweep),
                      "run.yaml");
  }
  // What all ranks say.
  Outcome sweep_on(const Mesh& mesh, const std::string& name, const std::string& sweep,
                   const std::string& more = "") {
    const YamlNode tree = tree_of_sweep(name, sweep, more);
    if (mesh.ranks() > 1) {
      check_many_ranks(real_files(), tree, mesh.ranks());
    }
    return run_on(mesh, tree);
  }
  Json results(const std::string& name) {
    return Json::parse(real_files().read(folder_ / name + "/" + kSweepFile));
  }
};

TEST_F(SweepOnRanks, HaveTheResultsOfOne) {
  const std::pair<const char*, const char*> sweeps[] = {
      {"grid", "{keys: {optimizer.lr: [1e-3, 1e-2], parallel.zero.stage: [1, 3]}}"},
      {"halving",
       "{method: halving, first_steps: 5, factor: 2, "
       "keys: {optimizer.lr: [1e-5, 1e-2, 1e-3]}}"}};
  for (const auto& [name, sweep] : sweeps) {
    ASSERT_EQ(sweep_on(along_data(1), std::string(name) + "_alone", sweep), Outcome::kFinished);
    const std::string shared = std::string(name) + "_shared";
    ASSERT_EQ(sweep_on(along_data(2), shared, sweep), Outcome::kFinished);
    EXPECT_EQ(results(shared), results(std::string(name) + "_alone"));
    const std::string stages = std::string(name) + "_stages";
    ASSERT_EQ(sweep_on({{{std::string(kPipelineAxis), 2}, {std::string(kDataAxis), 1}}}, stages,
                       sweep, ", pipeline: 2, schedule: zb_h1"),
              Outcome::kFinished);
    EXPECT_EQ(results(stages), results(std::string(name) + "_alone"));
  }
  EXPECT_EQ(results("halving_alone")["runs"][0]["status"], "left behind");
}

// A rate with which the loss is soon no number; the runs after it are not disturbed.
TEST_F(SweepOnRanks, GoOnWhereARunFails) {
  const std::string sweep = "{keys: {optimizer.lr: [1e30, 1e-3]}}";
  for (const auto& [ranks, name] : {std::pair(1, "alone"), std::pair(2, "shared")}) {
    EXPECT_THAT(message_of<Error>([&] { sweep_on(along_data(ranks), name, sweep); }),
                testing::HasSubstr("1 of 2 runs failed: 000; the same command tries it again"));
  }
  const Json shared = results("shared");
  EXPECT_EQ(shared["runs"][0]["status"], "failed");
  EXPECT_THAT(shared["runs"][0]["reason"].get<std::string>(), testing::HasSubstr("loss"));
  EXPECT_EQ(shared, results("alone"));
}

TEST_F(SweepOnRanks, StopTogetherAndGoOnUnderAnotherNumber) {
  const std::string sweep = "{keys: {optimizer.lr: [1e-3, 1e-2]}}";
  ASSERT_EQ(sweep_on(along_data(1), "alone", sweep), Outcome::kFinished);
  stop_ = true;
  EXPECT_EQ(sweep_on(along_data(2), "stopped", sweep), Outcome::kInterrupted);
  stop_ = false;
  EXPECT_EQ(results("stopped")["status"], "interrupted");
  EXPECT_EQ(sweep_on(along_data(4), "stopped", sweep), Outcome::kFinished);
  EXPECT_EQ(results("stopped"), results("alone"));
}

// Ranks that are no longer at the same point are told apart from a run that failed on all of them.
TEST_F(SweepOnRanks, EndWhereOneRankFailsAmidARun) {
  const auto sweep_of_one = [](std::shared_ptr<Ranks> ranks) {
    SweepRanks sweep(ranks.get(), [&](size_t, int64_t, bool) -> Outcome {
      check(ranks->rank() != 1, "the disk is full");
      ranks->world().barrier("step");
      return Outcome::kFinished;
    });
    ranks->rank() == 0 ? sweep.train(0, 1, false) : sweep.follow();
  };
  EXPECT_THAT(message_of<CommError>(
                  [&] { run_ranks(along_data(2), sweep_of_one, 1, {.timeout_seconds = 1}); }),
              testing::AllOf(testing::HasSubstr("rank 1 "), testing::HasSubstr("step")));
}

TEST_F(SweepOnRanks, AreCheckedBeforeAnythingRuns) {
  const auto error = [&](const std::string& keys) {
    return message_of<ConfigError>(
        [&] { sweep_on(along_data(2), "bad", "{keys: {" + keys + "}}"); });
  };
  EXPECT_THAT(error("parallel.tensor: [1, 2]"),
              testing::HasSubstr("sweep.keys: parallel.tensor is one for all runs"));
  EXPECT_THAT(error("batch.global: [8, 6]"),
              testing::HasSubstr("6 samples in micro-batches of 2 cannot be shared by 2 ranks"));
  EXPECT_FALSE(real_files().exists(folder_ / "bad/runs"));
}

}  // namespace
}  // namespace mstrain
