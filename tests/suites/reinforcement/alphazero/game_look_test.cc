#include "suites/reinforcement/alphazero/game_look.h"

#include <gtest/gtest.h>

#include "suites/reinforcement/env/board_picture.h"

namespace mstrain::alphazero {
namespace {

using reinforcement::BoardPicture;
using reinforcement::Colour;

Colour colour_at(const Image& picture, double x, double y) {
  const uint8_t* const pixel =
      picture.row(static_cast<int64_t>(y)) + static_cast<int64_t>(x) * picture.channels;
  return {pixel[0], pixel[1], pixel[2]};
}

void expect_colour(const Image& picture, double x, double y, Colour expected) {
  const Colour found = colour_at(picture, x, y);
  EXPECT_EQ(std::tuple(found.red, found.green, found.blue),
            std::tuple(expected.red, expected.green, expected.blue))
      << x << ", " << y;
}

// Of columns 3, 3, 2 and so on, each with half of the policy and column 0 with the other half.
LearnedGame connect_four(std::initializer_list<Action> actions) {
  LearnedGame game;
  for (const Action action : actions) {
    game.moves.push_back({action, 0, {{0, 0.5F}, {action, 0.5F}}});
  }
  return game;
}

TEST(GameLook, ShowWhatStandsThereWhatTheSearchFoundAndWhatWasPlayed) {
  const BoardGame rules("connect_four", "game");
  const std::vector<reinforcement::Moment> shown = pictures_of(connect_four({3, 3, 2}), rules);
  ASSERT_EQ(shown.size(), 3U);
  constexpr double kCell = BoardPicture::kCell;
  const Image& last = shown[2].picture;
  EXPECT_EQ(shown[2].step, 2);
  EXPECT_EQ(last.width, 7 * static_cast<int64_t>(kCell));
  EXPECT_EQ(last.height, 6 * static_cast<int64_t>(kCell));
  // The lowest row is the picture's last one.
  expect_colour(last, 3.5 * kCell, 5.5 * kCell, reinforcement::kBlue);
  expect_colour(last, 3.5 * kCell, 4.5 * kCell, reinforcement::kAmber);
  expect_colour(last, 2.5 * kCell, 5.5 * kCell, reinforcement::kRed);
  expect_colour(last, 2.5 * kCell, 5.5 * kCell - 7, reinforcement::kGreen);
  expect_colour(last, 0.5 * kCell, 5.5 * kCell, reinforcement::kGreen);
  expect_colour(last, 1.5 * kCell, 5.5 * kCell, reinforcement::kWhite);
  // A share of a half is a disc of half of the greatest one's area.
  expect_colour(last, 0.5 * kCell, 5.5 * kCell - 12, reinforcement::kWhite);
}

TEST(GameLook, IsAtTheNewestIteration) {
  const BoardGame rules("connect_four", "game");
  Replay replay(real_files(), "unused", rules, 100);
  for (const float result : {0.0F, 1.0F, -1.0F}) {
    LearnedGame game = connect_four({0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3});
    game.iteration = result == 0 ? 0 : 1;
    game.result = result;
    for (LearnedGame::Move& move : game.moves) {
      move.value = result / 2;  // whoever moves
    }
    replay.add(std::move(game));
  }
  replay.end_iteration();
  replay.end_iteration();
  const OrderedJson row = look_at(replay, rules);
  EXPECT_EQ(row["at"].dump(), "[0,2,4,6,8,10]");
  EXPECT_EQ(row["values"]["count"], 22);
  // Six of eleven moves are the first player's. Of what came, 1 and -1 half of the time each, the values tell 1/4 - 6/11 + 5/11 less than nothing.
  EXPECT_NEAR(row["values"]["explained"].get<double>(), -0.25 + 1.0 / 11, 1e-4);
  const std::string strip = row["strip"];
  EXPECT_TRUE(strip.starts_with("iVBORw0KGgo"));  // a PNG
}

TEST(GameLook, MarkWhereAPegLands) {
  const BoardGame rules("peg_solitaire", "game");
  mcts::ActionBuffer legal;
  rules.start().legal(legal);
  LearnedGame game;
  game.moves.push_back({legal[0], 0, {{legal[0], 1.0F}}});
  const std::vector<reinforcement::Moment> shown = pictures_of(game, rules);
  ASSERT_EQ(shown.size(), 1U);
  expect_colour(shown[0].picture, 3.5 * BoardPicture::kCell, 3.5 * BoardPicture::kCell,
                reinforcement::kRed);  // the hole in the middle
}

}  // namespace
}  // namespace mstrain::alphazero
