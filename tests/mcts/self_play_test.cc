// Games that a search plays against itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "mcts/any_search.h"
#include "mcts/evaluators.h"
#include "mcts/search/self_play.h"
#include "tests/core/base/message_of.h"
#include "tests/mcts/engine_games.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder

TEST(SelfPlay, GamesDoNotDependOnThreadsGroupsOrTrees) {
  std::map<int64_t, std::vector<Action>> first;
  for (const BatchOptions& options : {BatchOptions{4, 1, 1}, BatchOptions{8, 2, 2}}) {
    Pure pure;
    std::map<int64_t, std::vector<Action>> games;
    SelfPlayOptions play{.batch = options, .games = 12, .simulations = 30};
    AnyEvaluator<AnyGame> evaluator(pure);
    any_searches().self_play(
        "puct", {.seed = 2, .noise_fraction = 0.25}, play,
        [](int64_t n) { return any_game(Nim{.stones = 10 + static_cast<int>(n % 3)}); }, evaluator,
        [&](PlayedGame<AnyGame>&& game) {
          EXPECT_TRUE(game.finished);
          EXPECT_EQ(game.returns[0] + game.returns[1], 0);
          for (const auto& move : game.moves) {
            double weight = 0;
            for (const auto& e : move.edges) {
              weight += e.weight;
            }
            EXPECT_NEAR(weight, 1, 1e-6);
            games[game.number].push_back(move.action);
          }
        });
    EXPECT_EQ(games.size(), 12U);
    first = first.empty() ? games : first;
    EXPECT_EQ(games, first);
  }
}

// Games that are given up are the beginnings of what they would have been.
TEST(SelfPlay, AGameIsGivenUpWhereThereIsLittleHope) {
  const auto play = [](std::optional<double> below, double played_out) {
    std::map<int64_t, PlayedGame<AnyGame>> games;
    RandomRollout rollout;
    AnyEvaluator<AnyGame> evaluator(rollout);
    any_searches().self_play(
        "uct", {.seed = 5},
        {.batch = BatchOptions{8, 2, 2},
         .games = 240,
         .simulations = 60,
         .resign_below = below,
         .resign_moves = 2,
         .played_out = played_out},
        [](int64_t n) { return any_game(Nim{.stones = 14 + static_cast<int>(n % 9)}); }, evaluator,
        [&](PlayedGame<AnyGame>&& game) { games.emplace(game.number, std::move(game)); });
    return games;
  };
  const auto whole = play({}, 0.5);
  constexpr double kBelow = -0.4;
  const auto some = play(kBelow, 0.5);
  ASSERT_EQ(some.size(), whole.size());
  int given_up = 0;
  int checked = 0;
  for (const auto& [number, game] : some) {
    const auto& longer = whole.at(number);
    EXPECT_EQ(longer.gives_up, -1);
    EXPECT_TRUE(game.finished);
    ASSERT_LE(game.moves.size(), longer.moves.size());
    for (size_t i = 0; i < game.moves.size(); ++i) {
      EXPECT_EQ(game.moves[i].action, longer.moves[i].action);
    }
    // By hand, from the values of the longer game.
    int low[2] = {0, 0};
    int expected = -1;
    size_t at = 0;
    for (; at < longer.moves.size() && expected < 0; ++at) {
      const int player = longer.moves[at].state.player();
      low[player] = longer.moves[at].value < kBelow ? low[player] + 1 : 0;
      expected = low[player] >= 2 ? player : -1;
    }
    EXPECT_EQ(game.gives_up, expected) << number;
    if (game.given_up) {
      ++given_up;
      EXPECT_EQ(game.moves.size() + 1, at);
      EXPECT_EQ(game.returns[game.gives_up], -1);
      EXPECT_EQ(game.returns[1 - game.gives_up], 1);
    } else {
      checked += expected >= 0 ? 1 : 0;
      EXPECT_EQ(game.moves.size(), longer.moves.size());
      EXPECT_EQ(game.returns, longer.returns);
    }
  }
  EXPECT_GT(given_up, 5);
  EXPECT_GT(checked, 5);
}

TEST(SelfPlay, ResultsAreSumsOfTheRewardsOnTheWay) {
  RandomRollout rollout;
  for (const double discount : {1.0, 0.5}) {
    const std::function<Corridor(int64_t)> start = [](int64_t) { return Corridor{}; };
    int played = 0;
    int paid = 0;  // a step on and then out pays 0 in sum
    self_play<UctPolicies, Corridor>({.seed = 2, .uct_c = 1, .discount = discount},
                                     {.games = 12, .simulations = 20}, start, rollout,
                                     [&](PlayedGame<Corridor>&& game) {
                                       double expected = 0;
                                       double weight = 1;
                                       Corridor now;
                                       for (const auto& move : game.moves) {
                                         now.apply(move.action);
                                         EXPECT_EQ(move.rewards[0], now.last);
                                         expected += weight * static_cast<double>(now.last);
                                         weight *= discount;
                                       }
                                       EXPECT_NEAR(game.returns[0], expected, 1e-6);
                                       paid += game.returns[0] != 0 ? 1 : 0;
                                       ++played;
                                     });
    EXPECT_EQ(played, 12);
    EXPECT_GT(paid, 0);
  }
}

TEST(SelfPlay, WithoutSimulationsIsAnError) {
  RandomRollout rollout;
  AnyEvaluator<AnyGame> evaluator(rollout);
  for (const int64_t simulations : {0, 1}) {
    EXPECT_THROW(
        any_searches().self_play(
            "uct", {.seed = 2}, {.games = 3, .simulations = simulations},
            [](int64_t) { return any_game(Nim{}); }, evaluator, [](PlayedGame<AnyGame>&&) {}),
        Error);
  }
}

TEST(SelfPlay, TellsGamesThatAreOverWhereTheyBegin) {
  RandomRollout rollout;
  AnyEvaluator<AnyGame> evaluator(rollout);
  for (const std::vector<int64_t>& over : {std::vector<int64_t>{4}, {6}, {11}, {4, 5, 6, 8, 11}}) {
    const auto is_over = [&](int64_t n) {
      return std::find(over.begin(), over.end(), n) != over.end();
    };
    std::map<int64_t, PlayedGame<AnyGame>> games;
    any_searches().self_play(
        "uct", {.seed = 2},
        {.batch = BatchOptions{2, 1, 1}, .games = 8, .first_game = 4, .simulations = 20},
        [&](int64_t n) { return any_game(Nim{.stones = is_over(n) ? 0 : 5}); }, evaluator,
        [&](PlayedGame<AnyGame>&& game) { games.emplace(game.number, std::move(game)); });
    EXPECT_EQ(games.size(), 8U);
    for (const auto& [number, game] : games) {
      EXPECT_TRUE(game.finished);
      EXPECT_EQ(game.moves.empty(), is_over(number));
      EXPECT_EQ(std::abs(game.returns[0]), 1);
    }
  }
}

TEST(SelfPlay, OfThreePlayersNobodyGivesUp) {
  RandomRollout rollout;
  AnyEvaluator<AnyGame> evaluator(rollout);
  const auto play = [&](std::optional<double> below) {
    int played = 0;
    any_searches().self_play(
        "uct", {.seed = 2}, {.games = 3, .simulations = 20, .resign_below = below},
        [](int64_t) { return any_game(Nim3{}); }, evaluator,
        [&](PlayedGame<AnyGame>&&) { ++played; });
    return played;
  };
  EXPECT_EQ(play({}), 3);
  EXPECT_EQ(error_of([&] { play(-0.5); }),
            "self-play: resign_below needs a game of one or two players; this one has 3");
}

}  // namespace
}  // namespace mstrain::mcts
