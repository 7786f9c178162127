#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/suites/reinforcement/env/envs.h"

namespace mstrain::reinforcement {
namespace {

// Every environment that mstrain brings; MuJoCo's have a test of their own.
std::vector<std::string> all_names() {
  env_of("cartpole", 1);
  std::vector<std::string> names;
  for (const EnvEntry& entry : environments()) {
    if (entry.missing == nullptr) {
      names.push_back(entry.spec.name);
    }
  }
  return names;
}

std::vector<Row> rows_of(VectorEnv& env, int steps, uint64_t seed) {
  Rng rng(seed);
  std::vector<Row> rows;
  for (int t = 0; t < steps; ++t) {
    rows.push_back(step_of(env, draw_actions(env, rng).view()));
  }
  return rows;
}

TEST(Episodes, ObservationsAreFiniteAndWithinTheirSpace) {
  for (const std::string& name : all_names()) {
    const auto env = env_of(name, 3);
    env->reset(1, 0);
    const Space& space = env->spec().observation;
    const auto size = static_cast<size_t>(space.size());
    for (const Row& row : rows_of(*env, 60, 2)) {
      for (size_t i = 0; i < row.observations.size(); ++i) {
        ASSERT_GE(row.observations[i], static_cast<float>(space.low[i % size])) << name;
        ASSERT_LE(row.observations[i], static_cast<float>(space.high[i % size])) << name;
      }
    }
  }
}

TEST(Episodes, AreTheSameHoweverEnvironmentsAreSplit) {
  for (const std::string& name : all_names()) {
    const auto whole = env_of(name, 5), left = env_of(name, 2), right = env_of(name, 3);
    whole->reset(7, 10);
    left->reset(7, 10);
    right->reset(7, 12);
    const auto agents = static_cast<size_t>(whole->spec().agents);
    const size_t numbers = agents * static_cast<size_t>(whole->spec().observation.size());
    const size_t taken = agents * static_cast<size_t>(whole->spec().action.size());
    Rng rng(3);
    for (int t = 0; t < 80; ++t) {
      const Drawn all = draw_actions(*whole, rng);
      const Row row = step_of(*whole, all.view());
      const Actions view = all.view();
      const Row a = step_of(*left, view);
      const Row b = step_of(*right, {view.discrete ? view.discrete + 2 * taken : nullptr,
                                     view.box ? view.box + 2 * taken : nullptr});
      std::vector<float> joined = a.observations, rewards = a.rewards;
      joined.insert(joined.end(), b.observations.begin(), b.observations.end());
      rewards.insert(rewards.end(), b.rewards.begin(), b.rewards.end());
      ASSERT_EQ(joined, row.observations) << name << " step " << t;
      ASSERT_EQ(rewards, row.rewards) << name << " step " << t;
      ASSERT_EQ(joined.size(), 5 * numbers);
    }
  }
}

TEST(Episodes, OfOtherSeedsAreOthers) {
  for (const char* name : {"cartpole", "acrobot", "pendulum"}) {
    const auto a = env_of(name, 2), b = env_of(name, 2);
    a->reset(1, 0);
    b->reset(2, 0);
    EXPECT_NE(observed(*a), observed(*b));
    b->reset(1, 1);
    const std::vector<float> mine = observed(*a), others = observed(*b);
    EXPECT_NE(mine, others);
    EXPECT_TRUE(
        std::equal(mine.begin() + static_cast<long>(mine.size() / 2), mine.end(), others.begin()));
  }
}

TEST(Episodes, GoOnBitForBitFromASavedState) {
  for (const std::string& name : all_names()) {
    for (ResetMode mode : {ResetMode::kSameStep, ResetMode::kNextStep, ResetMode::kDisabled}) {
      const EnvConfig config{.time_limit = AutoOr<int64_t>(9), .reset = mode};
      const auto env = env_of(name, 4, config);
      env->reset(11, 100);
      rows_of(*env, 13, 4);
      const std::string saved = env->save();
      const auto again = env_of(name, 4, config);
      again->load(saved);
      EXPECT_EQ(observed(*again), observed(*env)) << name;
      EXPECT_EQ(rows_of(*again, 25, 5), rows_of(*env, 25, 5)) << name;
      EXPECT_EQ(again->save(), env->save()) << name;
    }
  }
}

TEST(Episodes, RefuseStatesThatAreNotTheirs) {
  for (const std::string& name : all_names()) {
    const auto env = env_of(name, 2);
    env->reset(1, 0);
    const std::string saved = env->save();
    EXPECT_THROW(env_of(name, 3)->load(saved), Error) << name;
    EXPECT_THROW(env_of(name, 2)->load(saved + "x"), Error) << name;
    for (size_t length = 0; length < saved.size(); length += 7) {
      EXPECT_THROW(env_of(name, 2)->load(saved.substr(0, length)), Error) << name << length;
    }
  }
  const auto env = env_of("cartpole", 2);
  env->reset(1, 0);
  EXPECT_THROW(env_of("acrobot", 2)->load(env->save()), Error);
}

TEST(Episodes, KeepTheLastObservationWhereTheNextOneBeginsAtOnce) {
  const auto same = env_of("cartpole", 8),
             off = env_of("cartpole", 8, {.reset = ResetMode::kDisabled});
  same->reset(2, 0);
  off->reset(2, 0);
  std::vector<bool> ended(8);
  Rng rng(6);
  for (int t = 0; t < 100; ++t) {
    const Drawn actions = draw_actions(*same, rng);
    const Row a = step_of(*same, actions.view());
    const Row b = step_of(*off, actions.view());
    for (size_t i = 0; i < 8; ++i) {
      if (ended[i]) {
        continue;
      }
      const auto from = [&](const std::vector<float>& all) {
        return std::vector<float>(all.begin() + static_cast<long>(i) * 4,
                                  all.begin() + static_cast<long>(i + 1) * 4);
      };
      ended[i] = a.terminated[i] != 0;
      EXPECT_EQ(a.terminated[i], b.terminated[i]);
      if (ended[i]) {
        EXPECT_EQ(from(a.final_observations), from(b.observations));
        EXPECT_NE(from(a.observations), from(b.observations));
        for (float x : from(a.observations)) {
          EXPECT_LE(std::abs(x), 0.05F);
        }
      } else {
        EXPECT_EQ(from(a.observations), from(b.observations));
      }
    }
  }
  EXPECT_EQ(std::count(ended.begin(), ended.end(), true), 8);
}

TEST(Episodes, RepeatTheirLastRowWhereResetsAreDisabled) {
  for (const std::string& name : all_names()) {
    const auto env =
        env_of(name, 2, {.time_limit = AutoOr<int64_t>(3), .reset = ResetMode::kDisabled});
    env->reset(1, 0);
    const std::vector<Row> rows = rows_of(*env, 6, 1);
    EXPECT_EQ(rows[2], rows[3]) << name;
    EXPECT_EQ(rows[2], rows[5]) << name;
  }
}

TEST(Episodes, TakeAStepToBeginWhereTheNextOneBeginsThen) {
  const auto env =
      env_of("mountain_car", 1, {.time_limit = AutoOr<int64_t>(2), .reset = ResetMode::kNextStep});
  env->reset(1, 0);
  const int64_t push = 2, nonsense = 99;
  step_of(*env, {.discrete = &push});
  const Row last = step_of(*env, {.discrete = &push});
  EXPECT_EQ(last.truncated[0], 1);
  EXPECT_EQ(last.terminated[0], 0);
  EXPECT_EQ(last.observations, last.final_observations);
  const Row first = step_of(*env, {.discrete = &nonsense});  // takes no action
  EXPECT_EQ(first.truncated[0], 0);
  EXPECT_EQ(first.rewards[0], 0);
  EXPECT_EQ(first.observations[1], 0);  // at rest
  EXPECT_EQ(step_of(*env, {.discrete = &push}).truncated[0], 0);
  EXPECT_EQ(step_of(*env, {.discrete = &push}).truncated[0], 1);
}

TEST(Episodes, NameTheEnvironmentAndTheStepOfABadAction) {
  const auto cartpole = env_of("cartpole", 3);
  cartpole->reset(1, 0);
  const int64_t good[3] = {0, 1, 0}, bad[3] = {0, 1, 2};
  step_of(*cartpole, {.discrete = good});
  EXPECT_THAT([&] { step_of(*cartpole, {.discrete = bad}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "cartpole: action 2 of environment 2 at step 2: expected discrete 0 … 1")));
  const auto pendulum = env_of("pendulum", 2);
  pendulum->reset(1, 0);
  for (double wrong : {std::nan(""), 2.001, -double{INFINITY}}) {
    const double actions[2] = {0, wrong};
    EXPECT_THAT([&] { step_of(*pendulum, {.box = actions}); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("of environment 1 at step")));
  }
}

TEST(Episodes, MustBeBegun) {
  const auto env = env_of("cartpole", 1);
  EXPECT_THAT([&] { observed(*env); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("reset() comes first")));
}

TEST(Episodes, ShowThemselves) {
  for (const std::string& name : all_names()) {
    const auto env = env_of(name, 2, {.reset = ResetMode::kNextStep});
    env->reset(1, 0);
    const Image before = env->picture(1);
    EXPECT_EQ(before.channels, 3) << name;
    EXPECT_GE(before.height, 32) << name;
    EXPECT_GE(before.width, 32) << name;
    EXPECT_EQ(before, env->picture(1)) << name;  // looking changes nothing
    bool moves = false;
    for (uint64_t t = 0; t < 20; ++t) {
      rows_of(*env, 1, t);
      moves = moves || !(env->picture(1) == before);
    }
    EXPECT_TRUE(moves) << name;
  }
}

TEST(Environments, AreFoundByName) {
  EXPECT_THAT([] { env_of("cart_pole", 1); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("did you mean cartpole?")));
  EXPECT_THROW(add_environment(find_environment("cartpole")), Error);
}

}  // namespace
}  // namespace mstrain::reinforcement
