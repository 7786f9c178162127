// What an on-policy learner makes of its configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class OnPolicyRun : public testing::Test {
 protected:
  // What `key` was in every iteration.
  std::vector<double> measured(const std::string& key, const std::string& name,
                               std::vector<std::string> changes) const {
    changes.insert(changes.end(), {"eval.interval=none", "log.interval=1"});
    run_agent(kSmallPpo, folder_ / name, changes);
    std::vector<double> out;
    for (const Json& row : read_metrics(real_files(), folder_ / name + "/metrics.jsonl")) {
      out.push_back(row[key].get<double>());
    }
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(OnPolicyRun, ThePenaltysWeightStaysWithinBounds) {
  const auto weights = [&](const std::string& target) {
    return measured("kl_weight", target, {"algorithm.kl_target=" + target, "algorithm.steps=4"});
  };
  EXPECT_EQ(weights("1e9").back(), 1e-6);
  EXPECT_EQ(std::ranges::max(weights("1e-30")), 1e6);
}

// It has no deviation from its own mean, and would teach nothing.
TEST_F(OnPolicyRun, TheAdvantageOfOneStepAloneStaysAsItIs) {
  const auto losses = [&](const std::string& normalize) {
    return measured("policy_loss", normalize,
                    {"algorithm.normalize_advantages=" + normalize, "environment.num_envs=1",
                     "algorithm.steps=2"});
  };
  const std::vector<double> found = losses("true");
  EXPECT_NE(found.front(), 0);
  EXPECT_EQ(found, losses("false"));
}

TEST_F(OnPolicyRun, MoreStepsThanCanBeCountedAreRefused) {
  const auto fails = [&](std::vector<std::string> changes, const std::string& message) {
    changes.insert(changes.end(), {"algorithm.steps=1000000", "memory.limit_gb=1"});
    EXPECT_THAT([&] { run_agent(kSmallPpo, folder_ / "bad", changes); },
                ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  fails({"environment.num_envs=2148"},
        "command line: algorithm.steps: 1000000 of 2148 rows are more than the 2147483647 that are "
        "learned from at once; expected at most 999759");
  // Whoever learns from the steps of all, whatever they are of.
  fails({"environment.name=spread", "environment.num_envs=1074",
         "distribution.policy=single_learner_coarse", "distribution.actors=2"},
        "1000000 of 2148 rows");
}

}  // namespace
}  // namespace mstrain::reinforcement
