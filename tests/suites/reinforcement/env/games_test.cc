#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/suites/reinforcement/env/envs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<uint8_t> masks_of(const VectorEnv& env) {
  std::vector<uint8_t> out(
      static_cast<size_t>(env.size() * env.spec().agents * env.spec().action.n));
  env.action_masks(out.data());
  return out;
}

// Plays `moves` in one environment of a game of two.
Row play(VectorEnv& env, const std::vector<int64_t>& moves) {
  Row row;
  for (int64_t move : moves) {
    const int64_t both[2] = {move, move};
    row = step_of(env, {.discrete = both});
  }
  return row;
}

TEST(Games, AreTurnsOfTwoAgentsWithOppositeInterests) {
  const auto env = env_of("tic_tac_toe", 1);
  env->reset(1, 0);
  int32_t mover = -1;
  env->to_move(&mover);
  EXPECT_EQ(mover, 0);
  std::vector<uint8_t> at_start(18);
  std::fill_n(at_start.begin(), 9, 1);
  EXPECT_EQ(masks_of(*env), at_start);
  play(*env, {4});
  env->to_move(&mover);
  EXPECT_EQ(mover, 1);
  const std::vector<uint8_t> masks = masks_of(*env);
  EXPECT_EQ(std::vector<uint8_t>(masks.begin(), masks.begin() + 9), std::vector<uint8_t>(9, 0));
  EXPECT_EQ(std::count(masks.begin() + 9, masks.end(), 1), 8);
  EXPECT_EQ(masks[9 + 4], 0);
  const Row last = play(*env, {0, 3, 1, 5});  // the middle row
  EXPECT_EQ(last.terminated[0], 1);
  EXPECT_EQ(last.rewards, (std::vector<float>{1, -1}));
}

TEST(Games, ShowEachAgentItsOwnSide) {
  const auto env = env_of("connect_four", 1);
  env->reset(1, 0);
  const Row row = play(*env, {3});
  const size_t numbers = row.observations.size() / 2;
  const std::vector<float> first(row.observations.begin(),
                                 row.observations.begin() + static_cast<long>(numbers));
  const std::vector<float> second(row.observations.begin() + static_cast<long>(numbers),
                                  row.observations.end());
  EXPECT_NE(first, second);
  // One's own stones are the first plane.
  EXPECT_EQ(std::count(first.begin(), first.begin() + static_cast<long>(numbers / 2), 1.0F), 1);
  EXPECT_EQ(std::count(second.begin(), second.begin() + static_cast<long>(numbers / 2), 1.0F), 0);
}

TEST(Games, NameAnIllegalMove) {
  const auto env = env_of("tic_tac_toe", 1);
  env->reset(1, 0);
  play(*env, {4});
  EXPECT_THAT([&] { play(*env, {4}); },
              ThrowsMessage<Error>(HasSubstr(
                  "tic_tac_toe: action 4 of agent 1 in environment 0 at step 2 is not legal")));
  EXPECT_THAT([&] { play(*env, {9}); }, ThrowsMessage<Error>(HasSubstr("expected discrete 0 … 8")));
}

TEST(Games, DrawChanceFromTheEpisodesStream) {
  const auto env = env_of("2048", 3), again = env_of("2048", 3);
  env->reset(5, 0);
  again->reset(5, 0);
  EXPECT_EQ(observed(*env), observed(*again));
  again->reset(6, 0);
  EXPECT_NE(observed(*env), observed(*again));
  // Rewards are those of merges: the sum of an episode is a multiple of 2.
  Rng rng(2);
  for (int t = 0; t < 100; ++t) {
    for (float reward : step_of(*env, draw_actions(*env, rng).view()).rewards) {
      EXPECT_GE(reward, 0);
    }
  }
}

TEST(Games, AverageToTheirValueUnderRandomPlay) {
  // Of tic-tac-toe's 255,168 games weighted by random play the first player wins 0.585, the second 0.288.
  const auto env = env_of("tic_tac_toe", 64);
  env->reset(3, 0);
  Rng rng(8);
  double first = 0, games = 0;
  for (int t = 0; t < 400; ++t) {
    const Row row = step_of(*env, draw_actions(*env, rng).view());
    for (size_t i = 0; i < 64; ++i) {
      games += row.terminated[i];
      first += row.rewards[2 * i];
      EXPECT_EQ(row.rewards[2 * i], -row.rewards[2 * i + 1]);
    }
  }
  EXPECT_NEAR(first / games, 0.585 - 0.288, 0.05);
}

TEST(Games, HaveNoListsOfNumbersForStatesAndNoStickyActions) {
  const auto env = env_of("hex_5x5", 1);
  env->reset(1, 0);
  double state = 0;
  EXPECT_THROW(env->get_states(&state), Error);
  EXPECT_THAT([] { env_of("connect_four", 1, {.sticky_actions = 0.1}); },
              ThrowsMessage<ConfigError>(
                  HasSubstr("environment.sticky_actions: connect_four has actions")));
}

}  // namespace
}  // namespace mstrain::reinforcement
