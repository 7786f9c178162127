// `mstrain play` of what runs of every placement leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/run/suite.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

TEST(Play, ShowsACheckpointOfEveryPlacement) {
  struct Case {
    std::string policy;
    int64_t actors, envs;
  };
  const std::vector<Case> cases{{"single", 1, 4},
                                {"single_learner_coarse", 2, 4},
                                {"single_learner_fine", 2, 4},
                                {"multi_learner", 2, 4},
                                {"env_servers", 2, 4},
                                {"env_servers", 4, 6},
                                {"async_actors", 3, 4},
                                {"central", 3, 4}};
  for (const Case& each : cases) {
    SCOPED_TRACE(fmt::format("{} of {}", each.policy, each.actors));
    const TemporaryFolder folder;
    run_agent(
        kSmallPpo, folder.path(),
        {"schedule.total_env_steps=128", "eval.interval=none", "distribution.policy=" + each.policy,
         fmt::format("distribution.actors={}", each.actors),
         fmt::format("environment.num_envs={}", each.envs)});
    const auto play = std::ranges::find_if(added_commands(), [](const Command& command) {
      return std::string_view(command.usage.name) == "play";
    });
    ASSERT_NE(play, added_commands().end());
    const std::vector<std::string> arguments{"--checkpoint", folder.path(), "--episodes", "2"};
    const std::atomic<bool> stop = false;
    testing::internal::CaptureStdout();
    EXPECT_NO_THROW(play->run(play->usage, arguments, stop));
    std::fflush(stdout);
    EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::HasSubstr("mean of 2: return"));
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
