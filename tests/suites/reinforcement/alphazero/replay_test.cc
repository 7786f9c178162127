#include "suites/reinforcement/alphazero/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/tensor/host.h"
#include "tests/amount.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"
#include "tests/suites/reinforcement/alphazero/small.h"

namespace mstrain::alphazero {
namespace {

// A random game whose policies are one share each, of the move that was played.
LearnedGame random_game(const BoardGame& game, uint64_t seed, int64_t iteration = 0) {
  mcts::Random rng(seed);
  LearnedGame out{.iteration = iteration};
  AnyGame state = game.start();
  while (state.player() >= 0) {
    mcts::ActionBuffer legal;
    state.legal(legal);
    const Action action = legal[rng.below(static_cast<uint32_t>(legal.size()))];
    out.moves.push_back({action, 0.5F, {{action, 1.0F}}});
    state.apply(action);
  }
  out.result = game.value_of(state.returns(), 0);
  return out;
}

TEST(AlphaZeroReplay, KeepsTheNewestGamesThatFillItsWindow) {
  const BoardGame game("tic_tac_toe", "game");
  Replay replay(real_files(), "unused", game, 30);
  std::vector<LearnedGame> all;
  for (uint64_t i = 0; i < 20; ++i) {
    all.push_back(random_game(game, i));
    replay.add(all.back());
    int64_t positions = 0;
    for (const LearnedGame& each : replay.games()) {
      positions += static_cast<int64_t>(each.moves.size());
    }
    ASSERT_EQ(positions, replay.positions());
    const auto oldest = static_cast<int64_t>(replay.games().front().moves.size());
    EXPECT_TRUE(replay.games().size() == i + 1 || positions >= 30);
    EXPECT_LT(positions - oldest, 30);
    EXPECT_EQ(replay.games().back(), all.back());
    // Every number is a position of its own, in order.
    int64_t index = 0;
    for (const LearnedGame& each : replay.games()) {
      for (size_t move = 0; move < each.moves.size(); ++move) {
        const Replay::Place place = replay.at(index++);
        ASSERT_EQ(&place.game, &each);
        ASSERT_EQ(place.move, move);
      }
    }
  }
  EXPECT_THROW(replay.at(replay.positions()), Error);
}

TEST(AlphaZeroReplay, ComesBackFromItsFileBitForBitAndDrawsTheSame) {
  const TemporaryFolder folder;
  const BoardGame game("connect_four", "game");
  Replay replay(real_files(), folder / "replay", game, 200);
  for (uint64_t i = 0; i < 20; ++i) {
    replay.add(random_game(game, i, static_cast<int64_t>(i / 4)));
  }
  replay.end_iteration();
  const std::string id = replay.prepare(7);
  Replay other(real_files(), folder / "replay", game, 200);
  other.resume(id);
  EXPECT_TRUE(other.games() == replay.games());
  EXPECT_EQ(other.iterations(), replay.iterations());
  other.add(random_game(game, 99));
  replay.add(random_game(game, 99));
  const auto a = draw_from(replay, game, 5, {.part = 16}, 32);
  const auto b = draw_from(other, game, 5, {.part = 16}, 32);
  const Tensors of_a = a->next();
  const Tensors of_b = b->next();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(to_vector<float>(of_a[i]), to_vector<float>(of_b[i]));
  }
  EXPECT_EQ(a->samples(), 48);
  const std::string later = replay.prepare(9);
  replay.confirm(later, {later});
  EXPECT_EQ(real_files().list(folder / "replay"), std::vector<std::string>{later});
}

TEST(AlphaZeroReplay, SamplesAreATurnedPositionWithItsMoveAndItsResult) {
  const BoardGame game("tic_tac_toe", "game");
  Replay replay(real_files(), "unused", game, 1000);
  for (uint64_t i = 0; i < 5; ++i) {
    replay.add(random_game(game, i));
  }
  const Tensors batch = draw_from(replay, game, 1, {.part = 200}, 0)->next();
  const auto x = to_vector<float>(batch[0]);
  const auto policy = to_vector<float>(batch[1]);
  const auto value = to_vector<float>(batch[2]);
  std::set<float> values;
  for (size_t row = 0; row < 200; ++row) {
    const float* const own = &x[row * 27];
    const auto stones = [&](size_t plane) {
      return std::count(own + 9 * plane, own + 9 * plane + 9, 1.0F);
    };
    const bool second = own[18] == 1.0F;
    EXPECT_EQ(stones(1) - stones(0), second ? 1 : 0);
    EXPECT_EQ(stones(2), second ? 9 : 0);
    for (size_t cell = 0; cell < 9; ++cell) {
      if (policy[row * 9 + cell] == 1.0F) {
        EXPECT_EQ(own[cell] + own[9 + cell], 0) << "the move is on a stone";
      }
    }
    EXPECT_EQ(std::count(&policy[row * 9], &policy[row * 9] + 9, 1.0F), 1);
    values.insert(value[row]);
  }
  EXPECT_GT(values.size(), 1);
}

TEST(AlphaZeroReplay, AResultCountsLessTheLongerItTakes) {
  const BoardGame game("connect_four", "game");
  Replay replay(real_files(), "unused", game, 1000);
  LearnedGame played;
  for (uint64_t seed = 0; played.result == 0; ++seed) {
    played = random_game(game, seed);
  }
  replay.add(played);
  const Tensors batch = draw_from(replay, game, 1, {.part = 50, .discount = 0.5}, 0)->next();
  const auto x = to_vector<float>(batch[0]);
  const auto value = to_vector<float>(batch[2]);
  for (size_t row = 0; row < 50; ++row) {
    const float* const planes = &x[row * 126];
    const auto stones = std::count(planes, planes + 84, 1.0F);
    const int mover = planes[84] == 1.0F ? 1 : 0;
    const auto left = static_cast<int>(played.moves.size()) - static_cast<int>(stones);
    EXPECT_EQ(value[row], std::ldexp(played.result_of(mover), -left));
  }
}

// As the search does, which multiplies what the game pays: here from 0 to 1, of which -1 to 1 is learned.
TEST(AlphaZeroReplay, WhatCountsLessIsTheResultOfTheGame) {
  const BoardGame game("peg_solitaire", "game");
  Replay replay(real_files(), "unused", game, 1000);
  const LearnedGame played = random_game(game, 3);
  replay.add(played);
  const float paid = game.results_of(played.result, 0)[0];
  ASSERT_GT(paid, 0);
  std::vector<float> expected;
  for (size_t left = 1; left <= played.moves.size(); ++left) {
    expected.push_back(2 * paid * std::pow(0.9F, static_cast<float>(left)) - 1);
  }
  const Tensors batch = draw_from(replay, game, 1, {.part = 100, .discount = 0.9}, 0)->next();
  for (const float value : to_vector<float>(batch[2])) {
    EXPECT_THAT(expected, testing::Contains(testing::FloatNear(value, 1e-6F)));
  }
}

TEST(AlphaZeroReplay, ADamagedFileIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  const BoardGame game("tic_tac_toe", "game");
  Replay replay(real_files(), folder.path(), game, 1000);
  for (uint64_t i = 0; i < 4; ++i) {
    replay.add(random_game(game, i));
  }
  const std::string path = folder / replay.prepare(1);
  const std::string sound = real_files().read(path);
  mcts::Random rng(1);
  int64_t refused = 0;
  const int64_t tries = repetitions(200);
  for (int64_t i = 0; i < tries; ++i) {
    std::string bytes = sound;
    if (i % 8 == 0) {
      bytes.resize(rng.below(static_cast<uint32_t>(sound.size())));
    } else {
      bytes[rng.below(static_cast<uint32_t>(sound.size()))] ^=
          static_cast<char>(1 + rng.below(255));
    }
    write_file_atomic(real_files(), path, bytes);
    Replay damaged(real_files(), folder.path(), game, 1000);
    try {
      damaged.resume(
          "step-00000001.safetensors");  // another number that fits is no damage that can be seen
    } catch (const IoError& error) {
      ++refused;
      EXPECT_THAT(error.what(), testing::HasSubstr("step-00000001"));
    }
  }
  EXPECT_GT(refused, tries / 2);
  const BoardGame other("connect_four", "game");
  Replay connect_four(real_files(), folder.path(), other, 1000);
  write_file_atomic(real_files(), path, sound);
  EXPECT_THROW(connect_four.resume("step-00000001.safetensors"), IoError);
}

}  // namespace
}  // namespace mstrain::alphazero
