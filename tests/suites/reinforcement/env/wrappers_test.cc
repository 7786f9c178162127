#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "suites/reinforcement/env/running_moments.h"
#include "tests/suites/reinforcement/env/envs.h"

namespace mstrain::reinforcement {
namespace {

constexpr ResetMode kModes[] = {ResetMode::kSameStep, ResetMode::kNextStep, ResetMode::kDisabled};

TEST(RunningMoments, AreThoseOfAllRowsHoweverTheyCome) {
  Rng rng(1);
  std::vector<float> rows;
  for (int i = 0; i < 3 * 100; ++i) {
    rows.push_back(static_cast<float>(rng.uniform(-3, 5) + (i % 3) * 100));
  }
  RunningMoments moments(3);
  int64_t done = 0;
  for (int64_t batch : {1, 7, 30, 62}) {
    moments.add(rows.data() + done * 3, batch);
    done += batch;
  }
  for (size_t k = 0; k < 3; ++k) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < 100; ++i) {
      mean += rows[i * 3 + k] / 100.0;
    }
    for (size_t i = 0; i < 100; ++i) {
      square += (rows[i * 3 + k] - mean) * (rows[i * 3 + k] - mean) / 100.0;
    }
    EXPECT_NEAR(moments.mean(k), mean, 1e-9);
    EXPECT_NEAR(moments.variance(k), square, 1e-9);
  }
}

TEST(NormalisedObservations, HaveMeanZeroAndVarianceOne) {
  const auto env = env_of("pendulum", 32, {.normalize_observations = true});
  env->reset(1, 0);
  Rng rng(2);
  for (int t = 0; t < 300; ++t) {
    step_of(*env, draw_actions(*env, rng).view());
  }
  double sum[3] = {}, square[3] = {};
  constexpr int kSteps = 200;
  for (int t = 0; t < kSteps; ++t) {
    const Row row = step_of(*env, draw_actions(*env, rng).view());
    for (size_t i = 0; i < row.observations.size(); ++i) {
      sum[i % 3] += row.observations[i] / (32.0 * kSteps);
      square[i % 3] += row.observations[i] * row.observations[i] / (32.0 * kSteps);
    }
    EXPECT_EQ(observed(*env), row.observations);
  }
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(sum[k], 0, 0.2);
    EXPECT_NEAR(square[k], 1, 0.2);
  }
}

TEST(NormalisedObservations, StandStillInEvaluationAndAreTakenOver) {
  const EnvConfig config{.normalize_observations = true, .normalize_rewards = true};
  const auto trained = env_of("cartpole", 8, config), judged = env_of("cartpole", 2, config);
  trained->reset(1, 0);
  Rng rng(3);
  for (int t = 0; t < 50; ++t) {
    step_of(*trained, draw_actions(*trained, rng).view());
  }
  judged->set_learning(false);
  judged->reset(9, 1000);
  judged->copy_statistics(*trained);
  const std::vector<float> first = observed(*judged);
  for (int t = 0; t < 50; ++t) {
    step_of(*judged, draw_actions(*judged, rng).view());
  }
  judged->reset(9, 1000);
  EXPECT_EQ(observed(*judged), first);
  EXPECT_THROW(judged->copy_statistics(*env_of("cartpole", 2)), Error);
}

TEST(NormalisedRewards, AreOnTheScaleOfTheReturnAndLeaveRawOnesAlone) {
  const auto env = env_of("pendulum", 16, {.normalize_rewards = true, .normalize_discount = 0.99});
  const auto plain = env_of("pendulum", 16);
  env->reset(1, 0);
  plain->reset(1, 0);
  Rng rng(4);
  double square = 0;
  std::vector<double> sums(16);
  constexpr int kSteps = 600;
  for (int t = 0; t < kSteps; ++t) {
    const Drawn actions = draw_actions(*env, rng);
    std::vector<float> rewards(16), raw(16), expected(16);
    env->step(actions.view(), {.rewards = rewards.data(), .raw_rewards = raw.data()});
    plain->step(actions.view(), {.rewards = expected.data()});
    EXPECT_EQ(raw, expected);
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_LE(rewards[i] * raw[i], 1e9);
      sums[i] = sums[i] * 0.99 + rewards[i];
      if (t % 200 == 199) {
        sums[i] = 0;
      } else if (t >= 400) {
        square += sums[i] * sums[i] / (16 * 199);
      }
    }
  }
  // The divisor is a deviation, not a root mean square: the mean of these sums is not 0.
  EXPECT_GT(square, 0.5);
  EXPECT_LT(square, 20);
}

TEST(ScaledRewards, AreMultipliedBeforeTheyAreCut) {
  const auto plain = env_of("pendulum", 8, {}),
             scaled = env_of("pendulum", 8, {.scale_rewards = 2}),
             cut = env_of("pendulum", 8, {.scale_rewards = 2, .clip_rewards = 3});
  for (VectorEnv* env : {plain.get(), scaled.get(), cut.get()}) {
    env->reset(1, 0);
  }
  Rng rng(5);
  for (int t = 0; t < 20; ++t) {
    const auto actions = draw_actions(*plain, rng);
    const auto as_it_is = step_of(*plain, actions.view()).rewards;
    const auto twice = step_of(*scaled, actions.view()).rewards;
    const auto least = step_of(*cut, actions.view()).rewards;
    for (size_t i = 0; i < as_it_is.size(); ++i) {
      EXPECT_EQ(twice[i], 2 * as_it_is[i]);
      EXPECT_EQ(least[i], std::max(-3.0F, twice[i]));
    }
  }
}

TEST(ClippedRewards, AreCut) {
  const auto env = env_of("pendulum", 8, {.clip_rewards = 0.5});
  env->reset(1, 0);
  Rng rng(5);
  for (int t = 0; t < 20; ++t) {
    for (float reward : step_of(*env, draw_actions(*env, rng).view()).rewards) {
      EXPECT_GE(reward, -0.5F);
    }
  }
}

TEST(FrameStack, HoldsTheLastObservationsOfOneEpisode) {
  constexpr int64_t kFrames = 3;
  for (ResetMode mode : kModes) {
    const EnvConfig plain_config{.time_limit = AutoOr<int64_t>(5), .reset = mode};
    EnvConfig config = plain_config;
    config.frame_stack = kFrames;
    const auto env = env_of("mountain_car", 2, config),
               plain = env_of("mountain_car", 2, plain_config);
    EXPECT_EQ(env->spec().observation.shape, (Shape{kFrames, 2}));
    env->reset(1, 0);
    plain->reset(1, 0);
    using Frames = std::vector<std::vector<float>>;
    const auto frames_of = [](const std::vector<float>& all, int64_t i) {
      return std::vector<float>(all.begin() + i * kFrames * 2, all.begin() + (i + 1) * kFrames * 2);
    };
    const auto joined = [](const Frames& frames) {
      std::vector<float> out;
      for (const auto& frame : frames) {
        out.insert(out.end(), frame.begin(), frame.end());
      }
      return out;
    };
    const auto row_of = [](const std::vector<float>& all, int64_t i) {
      return std::vector<float>(all.begin() + i * 2, all.begin() + (i + 1) * 2);
    };
    std::vector<Frames> expected;
    for (int64_t i = 0; i < 2; ++i) {
      expected.push_back(Frames(kFrames, row_of(observed(*plain), i)));
      EXPECT_EQ(frames_of(observed(*env), i), joined(expected.back()));
    }
    Rng rng(6);
    bool was_end = false;
    for (int t = 0; t < 13; ++t) {
      const Drawn actions = draw_actions(*plain, rng);
      const Row row = step_of(*plain, actions.view()), stacked = step_of(*env, actions.view());
      const bool is_end = row.truncated[0] != 0;
      for (int64_t i = 0; i < 2; ++i) {
        Frames& frames = expected[static_cast<size_t>(i)];
        const auto seen = row_of(row.observations, i);
        if (was_end && mode == ResetMode::kNextStep) {
          frames = Frames(kFrames, seen);
        } else if (!was_end || mode == ResetMode::kSameStep) {
          frames.erase(frames.begin());
          frames.push_back(is_end ? row_of(row.final_observations, i) : seen);
        }
        if (is_end) {
          EXPECT_EQ(frames_of(stacked.final_observations, i), joined(frames));
          if (mode == ResetMode::kSameStep) {
            frames = Frames(kFrames, seen);
          }
        }
        EXPECT_EQ(frames_of(stacked.observations, i), joined(frames)) << t;
      }
      was_end = is_end;
    }
  }
}

TEST(StickyActions, RepeatAsOftenAsAskedAndNeverOverAnEnd) {
  const EnvConfig config{.time_limit = AutoOr<int64_t>(50), .sticky_actions = 0.25};
  const auto env = env_of("mountain_car", 16, config);
  env->reset(3, 0);
  const auto plain = env_of("mountain_car", 16, {.time_limit = AutoOr<int64_t>(50)});
  plain->reset(3, 0);
  // The velocity tells which action was taken: pushes alternate between left and right.
  int64_t repeated = 0, first = 0;
  std::vector<int64_t> taken(16);
  for (int t = 0; t < 400; ++t) {
    const std::vector<int64_t> asked(16, t % 2 == 0 ? 2 : 0);
    std::vector<double> before(32), after(32);
    env->get_states(before.data());
    step_of(*env, {.discrete = asked.data()});
    if (t % 50 == 49) {
      continue;  // the state is the next episode's
    }
    env->get_states(after.data());
    plain->set_states(before.data());
    step_of(*plain, {.discrete = asked.data()});
    std::vector<double> expected(32);
    plain->get_states(expected.data());
    for (size_t i = 0; i < 16; ++i) {
      const bool is_other = expected[i * 2 + 1] != after[i * 2 + 1];
      repeated += is_other;
      first += is_other && t % 50 == 0;
    }
  }
  EXPECT_EQ(first, 0);
  // With alternating wishes a repeat shows where the action before was the other one: p / (1 + p) of the steps in the long run.
  EXPECT_NEAR(static_cast<double>(repeated) / (16 * 392), 0.25 / 1.25, 0.03);
}

TEST(TeamView, ShowsWhatAllAgentsSeeBehindOnesOwn) {
  EnvConfig config{.time_limit = AutoOr<int64_t>(4)};
  const auto plain = env_of("spread", 3, config);
  config.team_view = true;
  const auto env = env_of("spread", 3, config);
  EXPECT_EQ(env->spec().own_numbers, 10);
  EXPECT_EQ(env->spec().observation.shape, (Shape{26}));
  env->reset(2, 0);
  plain->reset(2, 0);
  const auto expect_shown = [](const std::vector<float>& seen, const std::vector<float>& shown) {
    ASSERT_EQ(shown.size(), 6U * 26U);
    for (size_t row = 0; row < 6; ++row) {
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(shown[row * 26 + i], seen[row * 8 + i]);
        EXPECT_EQ(shown[row * 26 + 10 + i], seen[row / 2 * 16 + i]);
        EXPECT_EQ(shown[row * 26 + 18 + i], seen[row / 2 * 16 + 8 + i]);
      }
      EXPECT_EQ(shown[row * 26 + 8 + row % 2], 1);
      EXPECT_EQ(shown[row * 26 + 9 - row % 2], 0);
    }
  };
  expect_shown(observed(*plain), observed(*env));
  Rng rng(6);
  for (int t = 0; t < 9; ++t) {
    const Drawn actions = draw_actions(*plain, rng);
    const Row row = step_of(*plain, actions.view()), shown = step_of(*env, actions.view());
    expect_shown(row.observations, shown.observations);
    if (row.truncated[0] != 0) {
      expect_shown(row.final_observations, shown.final_observations);
    }
  }
  EXPECT_THROW(env_of("cartpole", 1, config), ConfigError);
}

TEST(Wrappers, GoOnBitForBitFromASavedState) {
  for (ResetMode mode : kModes) {
    EnvConfig config{.time_limit = AutoOr<int64_t>(7), .reset = mode, .sticky_actions = 0.3};
    config.frame_stack = 2;
    config.scale_rewards = 3;
    config.clip_rewards = 1;
    config.normalize_observations = true;
    config.normalize_rewards = true;
    const auto env = env_of("cartpole", 3, config), again = env_of("cartpole", 3, config);
    env->reset(5, 2);
    Rng rng(7);
    for (int t = 0; t < 17; ++t) {
      step_of(*env, draw_actions(*env, rng).view());
    }
    again->load(env->save());
    EXPECT_EQ(observed(*again), observed(*env));
    for (int t = 0; t < 20; ++t) {
      const Drawn actions = draw_actions(*env, rng);
      EXPECT_EQ(step_of(*again, actions.view()), step_of(*env, actions.view()));
    }
    EXPECT_EQ(again->save(), env->save());
    const std::string saved = env->save();
    for (size_t length = 0; length < saved.size(); length += 5) {
      EXPECT_THROW(env_of("cartpole", 3, config)->load(saved.substr(0, length)), Error);
    }
    EXPECT_THROW(env_of("cartpole", 3)->load(saved), Error);
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
