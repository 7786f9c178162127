// What the tasks on grids, of memory and of teams are worth, by their rules.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "suites/reinforcement/env/grid_worlds.h"
#include "suites/reinforcement/env/memory_tasks.h"
#include "suites/reinforcement/env/team_games.h"
#include "tests/suites/reinforcement/env/envs.h"

namespace mstrain::reinforcement {
namespace {

template <class E>
std::vector<double> state_of(const E& env) {
  std::vector<double> state(static_cast<size_t>(E::spec().state_size));
  env.get_state(state);
  return state;
}

template <class E>
E begun(uint64_t seed) {
  uint32_t draws = 0;
  EnvRandom random(seed, DrawSite::kPhysics, 0, 0, draws);
  E env;
  env.begin(random);
  return env;
}

template <class E>
std::pair<float, bool> step(E& env, int64_t action) {
  uint32_t draws = 0;
  EnvRandom random(1, DrawSite::kPhysics, 0, 0, draws);
  float reward = 0;
  const bool ended = env.step(std::span(&action, 1), random, std::span(&reward, 1));
  return {reward, ended};
}

// The best return from every state that can be reached from `start`, steps being fewer than the limit: by sweeps over all of them.
template <class E>
double best_return(const E& start) {
  std::map<std::vector<double>, double> values{{state_of(start), -1e9}};
  for (bool grows = true; grows;) {
    grows = false;
    for (auto& [state, value] : values) {
      for (int64_t action = 0; action < E::spec().action.n; ++action) {
        E env;
        env.set_state(state);
        const auto [reward, ended] = step(env, action);
        double after = reward;
        if (!ended) {
          const auto [at, is_new] = values.emplace(state_of(env), -1e9);
          grows = grows || is_new;
          after += at->second;
        }
        if (after > value + 1e-9) {
          value = after;
          grows = true;
        }
      }
    }
  }
  return values.at(state_of(start));
}

TEST(GridWorlds, CanBeSolvedFromEveryStartWithinTheirThresholds) {
  double sum = 0;
  constexpr int kStarts = 12;
  for (uint64_t seed = 0; seed < kStarts; ++seed) {
    const double best = best_return(begun<GridWorld>(seed));
    EXPECT_GT(best, 0.8);
    EXPECT_LE(best, 1);
    sum += best;
  }
  EXPECT_GT(sum / kStarts, GridWorld::spec().reward_threshold);
  sum = 0;
  for (uint64_t seed = 0; seed < kStarts; ++seed) {
    const double best = best_return(begun<KeyDoor>(seed));
    EXPECT_GT(best, 0.9);
    EXPECT_LE(best, 1.2);
    sum += best;
  }
  EXPECT_GT(sum / kStarts, KeyDoor::spec().reward_threshold);
}

TEST(GridWorlds, KeepTheDoorShutWithoutTheKey) {
  KeyDoor env;
  const double before_door[4] = {3 * 8 + 3, 9, 0, 0}, with_key[4] = {3 * 8 + 3, 9, 1, 0};
  env.set_state(before_door);
  step(env, 1);
  EXPECT_EQ(env.cell, 3 * 8 + 3);
  env.set_state(with_key);
  step(env, 1);
  EXPECT_EQ(env.cell, 3 * 8 + 4);
  EXPECT_TRUE(env.is_open);
  const double in_wall[4] = {0, 9, 0, 0};
  EXPECT_THROW(env.set_state(in_wall), Error);
}

TEST(MemoryTasks, ShowWhatCountsInTheFirstObservationAlone) {
  for (int64_t side : {-1, 1}) {
    TMaze maze;
    maze.side = side;
    float seen[3];
    maze.observe(seen);
    EXPECT_EQ(seen[0], static_cast<float>(side));
    for (int64_t k = 1; k < TMaze::kLength; ++k) {
      step(maze, 0);
      maze.observe(seen);
      EXPECT_EQ(seen[0], 0);
    }
    EXPECT_EQ(seen[1], 1);
    TMaze right = maze, wrong = maze;
    EXPECT_EQ(step(right, side < 0 ? 1 : 2), std::pair(1.0F, true));
    EXPECT_EQ(step(wrong, side < 0 ? 2 : 1), std::pair(-1.0F, true));
  }
  for (int64_t cue = 0; cue < RepeatCue::kCues; ++cue) {
    RepeatCue task;
    task.cue = cue;
    float seen[RepeatCue::kCues + 1];
    task.observe(seen);
    EXPECT_EQ(std::max_element(std::begin(seen), std::end(seen)) - seen, cue);
    double sum = 0;
    for (int64_t k = 0; k < RepeatCue::kSteps; ++k) {
      const auto [reward, ended] = step(task, cue);
      sum += reward;
      EXPECT_EQ(ended, k + 1 == RepeatCue::kSteps);
      task.observe(seen);
      EXPECT_EQ(seen[RepeatCue::kCues], 1);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(MemoryTasks, CannotBeSolvedBySeeingOneObservationAtATime) {
  // All policies of the maze that are functions of the observation: at the end there is but one.
  for (int64_t turn : {1, 2}) {
    double sum = 0;
    for (int64_t side : {-1, 1}) {
      TMaze maze;
      maze.side = side;
      for (int64_t k = 1; k < TMaze::kLength; ++k) {
        sum += step(maze, 0).first;
      }
      sum += step(maze, turn).first;
    }
    EXPECT_LT(sum / 2, 0);
  }
}

TEST(TeamGames, HaveTheOptimumThatTheyName) {
  const auto env = env_of("climbing_game", 9);
  env->reset(1, 0);
  std::vector<int64_t> actions;
  for (int64_t pair = 0; pair < 9; ++pair) {
    actions.push_back(pair / 3);
    actions.push_back(pair % 3);
  }
  const Row row = step_of(*env, {.discrete = actions.data()});
  EXPECT_EQ(*std::max_element(row.rewards.begin(), row.rewards.end()), 11);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(row.rewards[2 * i], row.rewards[2 * i + 1]);
    EXPECT_EQ(row.terminated[i], 1);
    EXPECT_EQ(row.rewards[2 * i] == 11, i == 0);
  }
}

TEST(TeamGames, TheFirstAgentChoosesTheSecondStep) {
  for (int64_t first : {0, 1}) {
    for (int64_t pair = 0; pair < 4; ++pair) {
      TwoStepGame game;
      std::array<float, 2> rewards{};
      uint32_t draws = 0;
      EnvRandom random(1, DrawSite::kPhysics, 0, 0, draws);
      const std::vector<int64_t> chosen{first, 1 - first}, actions{pair / 2, pair % 2};
      EXPECT_FALSE(game.step(chosen, random, rewards));
      EXPECT_EQ(rewards[0], 0);
      EXPECT_TRUE(game.step(actions, random, rewards));
      const float expected = first == 0 ? 7 : pair == 3 ? 8 : pair == 0 ? 0 : 1;
      EXPECT_EQ(rewards[0], expected) << first << " " << pair;
      EXPECT_EQ(rewards[1], expected);
    }
  }
}

// Each agent walks to its mark by the shorter pairing: returns are those that distances give.
TEST(TeamGames, SpreadPaysForDistances) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    auto env = begun<Spread>(seed);
    const int64_t start = env.distance();
    EXPECT_GT(start, 0);
    for (int64_t t = 0; t < 25 && env.distance() > 0; ++t) {
      // Any pair of actions that brings them nearest.
      Spread best = env;
      float paid[2] = {};
      for (int64_t pair = 0; pair < 25; ++pair) {
        Spread next = env;
        uint32_t draws = 0;
        EnvRandom random(1, DrawSite::kPhysics, 0, 0, draws);
        const int64_t actions[2] = {pair / 5, pair % 5};
        float rewards[2];
        const bool ended = next.step(actions, random, rewards);
        EXPECT_EQ(ended, next.distance() == 0);
        EXPECT_EQ(rewards[0], ended ? 1.0F : -static_cast<float>(next.distance()) / 5);
        EXPECT_NE(next.agents[0], next.agents[1]);
        if (next.distance() < best.distance()) {
          best = next;
          std::copy_n(rewards, 2, paid);
        }
      }
      EXPECT_LT(best.distance(), env.distance());
      EXPECT_EQ(paid[0], paid[1]);
      env = best;
    }
    EXPECT_EQ(env.distance(), 0);
  }
}

TEST(OneEnvironment, RefusesStatesThatAreNone) {
  const auto env = env_of("grid_world", 1);
  for (double state : {0.0, 10.5, -1.0, 81.0}) {
    EXPECT_THROW(env->set_states(&state), Error) << state;
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
