#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/suites/reinforcement/env/envs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

EnvConfig plugin(const std::string& fault) {
  EnvConfig config;
  config.library = std::string(MSTRAIN_PLUGINS) + "/libplugin_" + fault + ".so";
  return config;
}

void use(const std::string& fault) {
  const auto env = make_env(plugin(fault), 2);
  env->reset(1, 0);
  observed(*env);
  const double actions[4] = {0.5, 1, -0.5, 0};
  step_of(*env, {.box = actions});
  env->save();
}

TEST(Plugin, IsAnEnvironmentLikeOthers) {
  const auto env = make_env(plugin("none"), 2);
  EXPECT_EQ(env->spec().name, "faulty");
  EXPECT_EQ(env->spec().action, Space::box({-1, 0}, {1, 2}));
  EXPECT_TRUE(std::isnan(env->spec().reward_threshold));
  env->reset(1, 5);
  const std::vector<float> first = observed(*env);
  EXPECT_NE(first[0], first[3]);
  const auto one = make_env(plugin("none"), 1);
  one->reset(1, 6);
  EXPECT_EQ(observed(*one)[0], first[3]);

  const double actions[4] = {0.5, 1, -0.5, 0};
  const Row row = step_of(*env, {.box = actions});
  EXPECT_FLOAT_EQ(row.rewards[0], first[0] + 1.5F);
  EXPECT_FLOAT_EQ(row.observations[3], first[3] - 0.5F);
  const auto again = make_env(plugin("none"), 2);
  again->load(env->save());
  EXPECT_EQ(step_of(*again, {.box = actions}), step_of(*env, {.box = actions}));
}

TEST(Plugin, ThatCannotBeUsedSaysWhyByItsFile) {
  EnvConfig missing;
  missing.library = "/nowhere/libnothing.so";
  EXPECT_THAT([&] { make_env(missing, 1); },
              ThrowsMessage<IoError>(HasSubstr("/nowhere/libnothing.so: no such file")));
  EnvConfig text;
  text.library = std::string(MSTRAIN_SOURCE_DIR) + "/README.md";
  EXPECT_THAT([&] { make_env(text, 1); },
              ThrowsMessage<Error>(HasSubstr("README.md: cannot be loaded")));
  EXPECT_THAT([] { use("other_version"); },
              ThrowsMessage<Error>(
                  HasSubstr("libplugin_other_version.so: made for version 2 of the interface")));
  EXPECT_THAT([] { use("no_function"); },
              ThrowsMessage<Error>(HasSubstr("its function step is NULL")));
  EXPECT_THAT([] { use("no_actions"); },
              ThrowsMessage<Error>(HasSubstr("box_actions is 0: expected 1")));
  EXPECT_THAT([] { use("gives_null"); }, ThrowsMessage<Error>(HasSubstr("gave NULL")));
  EnvConfig renamed = plugin("none");
  renamed.name = "flawless";
  EXPECT_THAT([&] { make_env(renamed, 1); },
              ThrowsMessage<Error>(HasSubstr("its environment is faulty, not flawless")));
}

TEST(Plugin, ThatDoesOtherThanItSaidIsAnError) {
  EXPECT_THAT([] { use("leaves_out"); },
              ThrowsMessage<Error>(
                  HasSubstr("faulty: number 2 of the observation of environment 0 is nan")));
  EXPECT_THAT([] { use("writes_too_much"); },
              ThrowsMessage<Error>(HasSubstr("observe() wrote more than the 3 numbers")));
  EXPECT_THAT(
      [] { use("nan_reward"); },
      ThrowsMessage<Error>(HasSubstr("faulty: the reward of environment 0 is nan at step 1")));
  EXPECT_THAT(
      [] { use("fails"); },
      ThrowsMessage<Error>(HasSubstr("step() of environment 0 failed: the wheel came off")));
  EXPECT_THAT([] { use("state_of_nan"); },
              ThrowsMessage<Error>(HasSubstr("number 0 of the state of environment 0 is nan")));
}

TEST(PluginDeathTest, ThatCrashesIsNamedBeforeTheProcessEnds) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(use("crashes"),
               "mstrain: .*libplugin_crashes.so crashed in step\\(\\): it touched memory");
  EXPECT_DEATH(use("aborts"), "libplugin_aborts.so crashed in step\\(\\): it called abort\\(\\)");
}

}  // namespace
}  // namespace mstrain::reinforcement
