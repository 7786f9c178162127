#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/golden/classic_control.h"
#include "tests/suites/reinforcement/env/envs.h"

namespace mstrain::reinforcement {
namespace {

// Steps all environments by one action each; as the space wants it.
Row step_with(VectorEnv& env, const std::vector<double>& actions) {
  const std::vector<int64_t> whole(actions.begin(), actions.end());
  return step_of(env, env.spec().action.is_discrete() ? Actions{.discrete = whole.data()}
                                                      : Actions{.box = actions.data()});
}

// 1e-12 of what numbers are: libraries differ in the last bit of sines.
void expect_near(double found, double expected, const std::string& what) {
  EXPECT_NEAR(found, expected, 1e-12 * std::max(1.0, std::abs(expected))) << what;
}

TEST(ClassicControl, AgreesWithGymnasiumStepByStep) {
  for (const golden::ClassicEnv& kind : golden::kClassic) {
    for (const golden::ClassicCase& each : kind.cases) {
      const auto env = env_of(kind.name, 1);
      env->set_states(each.state.data());
      Row row;
      for (size_t t = 0; t < each.actions.size(); ++t) {
        row = step_with(*env, {each.actions[t]});
        if (t + 1 == each.actions.size() && row.terminated[0] != 0) {
          break;  // the state is that of the next episode
        }
        const std::vector<double> state = states_of(*env);
        for (size_t k = 0; k < state.size(); ++k) {
          expect_near(state[k], each.after[t][k], fmt::format("{} step {} [{}]", kind.name, t, k));
        }
      }
      EXPECT_EQ(row.terminated[0] != 0, each.terminated) << kind.name;
      EXPECT_NEAR(row.rewards[0], each.reward, 1e-6 * std::max(1.0, std::abs(each.reward)));
    }
  }
}

TEST(ClassicControl, GivesTheSameBitsWhereverAnEnvironmentStandsInTheArray) {
  for (const golden::ClassicEnv& kind : golden::kClassic) {
    const auto count = static_cast<int64_t>(kind.cases.size());
    const auto together = env_of(kind.name, count, {.reset = ResetMode::kDisabled});
    std::vector<double> states, actions;
    for (const golden::ClassicCase& each : kind.cases) {
      states.insert(states.end(), each.state.begin(), each.state.end());
      actions.push_back(each.actions[0]);
    }
    together->set_states(states.data());
    step_with(*together, actions);
    const std::vector<double> after = states_of(*together);
    const auto numbers = static_cast<size_t>(together->spec().state_size);
    for (size_t i = 0; i < kind.cases.size(); ++i) {
      const auto alone = env_of(kind.name, 1, {.reset = ResetMode::kDisabled});
      alone->set_states(kind.cases[i].state.data());
      step_with(*alone, {actions[i]});
      const std::vector<double> mine = states_of(*alone);
      for (size_t k = 0; k < numbers; ++k) {
        EXPECT_EQ(mine[k], after[i * numbers + k]) << kind.name << " " << i << " " << k;
      }
    }
  }
}

// Values of reference/rl_mcts: Gymnasium 1.4.0 on another machine, to twelve digits.
TEST(ClassicControl, EndsWhereItShould) {
  const auto cartpole = env_of("cartpole", 1, {.reset = ResetMode::kDisabled});
  const double zeros[4] = {};
  cartpole->set_states(zeros);
  for (int t = 1; t <= 9; ++t) {
    EXPECT_EQ(step_with(*cartpole, {1}).terminated[0], t == 9) << t;
  }
  const double expected[4] = {0.140650972, 1.760381126, -0.215186050, -2.777886494};
  for (size_t k = 0; k < 4; ++k) {
    EXPECT_NEAR(states_of(*cartpole)[k], expected[k], 1e-9);
  }

  const auto car = env_of("mountain_car", 1);
  const double start[2] = {-0.5, 0};
  car->set_states(start);
  int steps = 0;
  for (bool ended = false; !ended; ++steps) {
    ended = step_with(*car, {states_of(*car)[1] >= 0 ? 2.0 : 0.0}).terminated[0] != 0;
  }
  EXPECT_EQ(steps, 124);

  const auto pendulum = env_of("pendulum", 1);
  const double leaning[2] = {std::numbers::pi / 2, 0.5};
  pendulum->set_states(leaning);
  double sum = 0;
  for (int t = 0; t < 50; ++t) {
    sum += step_with(*pendulum, {1}).rewards[0];
  }
  EXPECT_NEAR(sum, -233.568244320, 1e-4);  // of f32
  EXPECT_NEAR(states_of(*pendulum)[0], 1.554843777, 1e-9);
  EXPECT_NEAR(states_of(*pendulum)[1], -1.022863024, 1e-9);
}

// Means of Gymnasium's random policies: 21.99 +- 0.16 over 5000 episodes of CartPole, a return of -1218 +- 13 of Pendulum.
TEST(ClassicControl, BeginsAsGymnasiumDoes) {
  Rng rng(5);
  const auto cartpole = env_of("cartpole", 256);
  cartpole->reset(3, 0);
  int64_t ends = 0;
  for (int t = 0; t < 200; ++t) {
    const Row row = step_of(*cartpole, draw_actions(*cartpole, rng).view());
    ends += std::count(row.terminated.begin(), row.terminated.end(), 1);
  }
  EXPECT_NEAR(256.0 * 200 / static_cast<double>(ends), 22.4, 1.2);  // cut episodes count for some

  const auto pendulum = env_of("pendulum", 256);
  pendulum->reset(4, 0);
  double sum = 0;
  for (int t = 0; t < 200; ++t) {
    for (float reward : step_of(*pendulum, draw_actions(*pendulum, rng).view()).rewards) {
      sum += reward;
    }
  }
  EXPECT_NEAR(sum / 256, -1218, 60);
}

TEST(ClassicControl, RefusesStatesThatAreNoNumbers) {
  const auto env = env_of("acrobot", 2);
  std::vector<double> states(8);
  states[5] = std::nan("");
  EXPECT_THAT(
      [&] { env->set_states(states.data()); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("number 1 of the state of environment 1")));
  states[5] = 1e9;
  EXPECT_THROW(env->set_states(states.data()), Error);
}

}  // namespace
}  // namespace mstrain::reinforcement
