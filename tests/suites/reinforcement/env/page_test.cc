// docs/adding_an_environment.md: its struct, and its library in C, are the environment that it describes.
#include "docs/adding_an_environment.inc"

#include <gtest/gtest.h>

#include "tests/suites/reinforcement/env/envs.h"

namespace mstrain::reinforcement {
namespace {

TEST(AddingAnEnvironment, MakesOneOfAStructThatIsTheSameAsTheOneInC) {
  static const bool kAdded = (env_of("cartpole", 1), add_mine(), true);
  ASSERT_TRUE(kAdded);
  EnvConfig config;
  config.library = std::string(MSTRAIN_PLUGINS) + "/libcorridor.so";
  const auto mine = env_of("corridor", 4), in_c = make_env(config, 4);
  const std::vector<double> states = {0, 1, 4, 5};
  mine->set_states(states.data());
  in_c->set_states(states.data());
  int64_t ends = 0;
  for (int64_t action : {0, 1, 1, 1, 1, 1, 1, 1}) {  // both draw the same starts
    const std::vector<int64_t> all(4, action);
    const Row ours = step_of(*mine, {.discrete = all.data()});
    EXPECT_EQ(ours, step_of(*in_c, {.discrete = all.data()}));
    ends += std::count(ours.terminated.begin(), ours.terminated.end(), 1);
  }
  EXPECT_GE(ends, 4);
  const double nowhere = 7;
  EXPECT_THROW(env_of("corridor", 1)->set_states(&nowhere), Error);
  EXPECT_THROW(make_env(config, 1)->set_states(&nowhere), Error);
}

}  // namespace
}  // namespace mstrain::reinforcement
