// What is known about the games: how many positions and games there are, who wins, by how much.
// Connect four's and Othello's counts of move paths are those that programs for both games publish ("perft").
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mcts/conformance.h"
#include "mcts/games/connect_four.h"
#include "mcts/games/game_2048.h"
#include "mcts/games/go.h"
#include "mcts/games/gomoku.h"
#include "mcts/games/hex.h"
#include "mcts/games/kuhn_poker.h"
#include "mcts/games/leduc_poker.h"
#include "mcts/games/othello.h"
#include "mcts/games/peg_solitaire.h"
#include "mcts/games/tic_tac_toe.h"
#include "tests/amount.h"

namespace mstrain::mcts {
namespace {

template <GameState S>
std::vector<S> successors(const S& state) {
  std::vector<S> out;
  for (const auto& action : actions_of(state)) {
    out.push_back(state);
    out.back().apply(action);
  }
  return out;
}

struct GameCount {
  int x = 0, o = 0, draws = 0;
};
void count_games(const TicTacToe& state, GameCount& count, std::set<std::string>& positions) {
  positions.insert(state.position());
  if (state.player() == kTerminal) {
    const float x = state.returns()[0];
    ++(x > 0 ? count.x : x < 0 ? count.o : count.draws);
    return;
  }
  for (const TicTacToe& next : successors(state)) {
    count_games(next, count, positions);
  }
}

// The value for the player to move, of a two-player game without chance.
template <GameState S>
float negamax(const S& state, std::unordered_map<std::string, float>& known) {
  if (const auto found = known.find(state.position()); found != known.end()) {
    return found->second;
  }
  float best = -2;
  for (const S& next : successors(state)) {
    const int mover = state.player();
    const float value = next.player() == kTerminal ? next.returns()[static_cast<size_t>(mover)]
                        : next.player() == mover   ? negamax(next, known)
                                                   : -negamax(next, known);
    best = std::max(best, value);
  }
  known.emplace(state.position(), best);
  return best;
}
template <GameState S>
float value_of(const S& state) {
  std::unordered_map<std::string, float> known;
  return negamax(state, known);
}

TEST(TicTacToe, Has255168GamesAnd5478Positions) {
  GameCount count;
  std::set<std::string> positions;
  count_games(TicTacToe(), count, positions);
  EXPECT_EQ(count.x, 131184);
  EXPECT_EQ(count.o, 77904);
  EXPECT_EQ(count.draws, 46080);
  EXPECT_EQ(count.x + count.o + count.draws, 255168);
  EXPECT_EQ(positions.size(), 5478U);
}

TEST(TicTacToe, IsADraw) { EXPECT_EQ(value_of(TicTacToe()), 0.0F); }

template <GameState S>
void expect_paths(std::initializer_list<uint64_t> counts, int fast_depth) {
  int depth = 0;
  for (const uint64_t count : counts) {
    ++depth;
    if (depth <= fast_depth || long_tests()) {
      EXPECT_EQ(conformance::count_paths(S(), depth), count) << "depth " << depth;
    }
  }
}

TEST(ConnectFour, HasAsManyPathsAsPublished) {
  expect_paths<ConnectFour>({7, 49, 343, 2401, 16807, 117649, 823536, 5673234, 39394572}, 8);
}

TEST(Othello, HasAsManyPathsAsPublished) {
  expect_paths<Othello<8>>({4, 12, 56, 244, 1396, 8200, 55092, 390216, 3005288}, 8);
}

int best_margin(
    const Othello<4>& state) {  // discs of the first player minus the second's, at best play
  if (state.player() == kTerminal) {
    return state.margin();
  }
  const bool first = state.player() == 0;
  int best = first ? -100 : 100;
  for (const Othello<4>& next : successors(state)) {
    best = first ? std::max(best, best_margin(next)) : std::min(best, best_margin(next));
  }
  return best;
}
TEST(Othello, IsWonByTheSecondPlayerByEightOnFourByFour) {
  EXPECT_EQ(best_margin(Othello<4>()), -8);
}

TEST(Hex, IsWonByTheFirstPlayer) {
  EXPECT_EQ(value_of(Hex<2>()), 1.0F);
  EXPECT_EQ(value_of(Hex<3>()), 1.0F);
}

TEST(Hex, AFilledBoardHasExactlyOneWinner) {
  Random rng(7);
  for (int game = 0; game < 200; ++game) {
    Hex<7> state;
    int plies = 0;
    while (state.player() != kTerminal) {
      const auto actions = actions_of(state);
      ASSERT_FALSE(actions.empty()) << "a filled board without a winner:\n" << state.draw();
      state.apply(actions[rng.below(static_cast<uint32_t>(actions.size()))]);
      ++plies;
    }
    EXPECT_GE(plies, 13);  // seven stones of one player and six of the other at the least
  }
}

TEST(Gomoku, FiveInEachDirectionWinsAndFourDoesNot) {
  for (const char* line : {"a1 b1 c1 d1 e1", "a1 a2 a3 a4 a5", "a1 b2 c3 d4 e5", "e1 d2 c3 b4 a5",
                           "o15 n15 m15 l15 k15", "k5 l4 m3 n2 o1"}) {
    Gomoku<15> state;
    int stones = 0;
    for (std::string_view rest = line; !rest.empty();
         rest.remove_prefix(std::min(rest.size(), rest.find(' ') + 1))) {
      EXPECT_NE(state.player(), kTerminal) << line << " after " << stones;
      state.apply(state.parse_action(rest.substr(0, rest.find(' '))));
      if (++stones < 5) {
        state.apply(state.parse_action(
            cell_name({.columns = 15, .rows = 15}, 6 + 2 * stones % 5, 6 + stones)));
      } else {
        break;
      }
    }
    EXPECT_EQ(state.player(), kTerminal) << line;
    EXPECT_EQ(state.returns(), (Returns<2>{1, -1})) << line;
  }
}

// Captures, suicide and ko, on the smallest boards where they occur.
TEST(Go, CapturesWhatHasNoLiberty) {
  const auto state = Go<5>::from_position("a2 a1 b1");
  EXPECT_EQ(state.area(), 25);                    // the white stone in the corner is gone
  EXPECT_THROW(state.parse_action("a1"), Error);  // and may not come back: suicide
}

TEST(Go, ForbidsToTakeAKoBackAtOnce) {
  //   3 . x o .        white plays b2 and takes c2; black may not take b2 back at once
  //   2 x . x o
  //   1 . x o .
  auto state = Go<5>::from_position("b3 c3 a2 d2 b1 c1 c2");
  state.apply(state.parse_action("b2"));
  EXPECT_THROW(state.parse_action("c2"), Error);
  auto later = play_moves(state, "e5 e4");
  EXPECT_NO_THROW(later.parse_action("c2"));
}

TEST(Go, ForbidsEveryEarlierBoard) {
  Random rng(11);
  for (int game = 0; game < 30; ++game) {
    Go<3> state;
    std::set<std::string> boards = {state.draw()};
    while (state.player() != kTerminal) {
      const auto actions = actions_of(state);
      const Action action =
          actions[rng.below(static_cast<uint32_t>(actions.size() - (actions.size() > 1 ? 1 : 0)))];
      state.apply(action);
      if (action != Go<3>::kPass) {
        EXPECT_TRUE(boards.insert(state.draw()).second) << "a board came back:\n" << state.draw();
      }
    }
  }
}

TEST(Go, CountsArea) {
  //   3 . x .        black has six cells, white its two stones; c3 lies between both
  //   2 . x o
  //   1 . x o
  const auto state = Go<3>::from_position("b1 c1 b2 c2 b3");
  EXPECT_EQ(state.area(), 6 - 2);
  EXPECT_EQ(Go<3>().area(), 0);
  EXPECT_EQ(Go<3>::from_position("b2").area(), 9);
}

TEST(Game2048, SlidesAndPays) {
  //                           1 1 2 2 → 2 3 pays 4 + 8
  auto state = Game2048::from_position("1122/1111/.1.1/3... 0");
  auto left = state;
  left.apply(left.parse_action("left"));
  EXPECT_EQ(left.position(), "23../22../2.../3... 1");
  EXPECT_FLOAT_EQ(left.rewards()[0], (4 + 8 + 4 + 4 + 4) * Game2048::kPoint);
  auto right = state;
  right.apply(right.parse_action("right"));
  EXPECT_EQ(right.position(), "..23/..22/...2/...3 1");
  auto up = state;
  up.apply(up.parse_action("up"));
  EXPECT_EQ(up.position(), "2222/3112/..../.... 1");
  auto down = state;
  down.apply(down.parse_action("down"));
  EXPECT_EQ(down.position(), "..../..../2122/3212 1");
}

// R. Gasser's and others' counts of the positions after n jumps, up to symmetry.
TEST(PegSolitaire, HasAsManyPositionsAsPublished) {
  std::set<uint64_t> level = {PegSolitaire().pegs()};
  std::vector<PegSolitaire> states = {PegSolitaire()};
  for (const size_t expected : {1U, 2U, 8U, 39U, 171U, 719U, 2757U}) {
    std::map<uint64_t, PegSolitaire> next;
    for (const PegSolitaire& state : states) {
      for (const PegSolitaire& after : successors(state)) {
        PegSolitaire least = after;
        for (int k = 1; k < 8; ++k) {
          const PegSolitaire turned = after.symmetry(k);
          least = turned.pegs() < least.pegs() ? turned : least;
        }
        next.emplace(least.pegs(), least);
      }
    }
    EXPECT_EQ(next.size(), expected);
    states.clear();
    for (const auto& entry : next) {
      states.push_back(entry.second);
    }
  }
}

TEST(KuhnPoker, PaysWhatTheCardsAndBetsSay) {
  const auto first = [](const char* moves) { return KuhnPoker::from_position(moves).returns()[0]; };
  EXPECT_EQ(first("K Q pass pass"), 1);
  EXPECT_EQ(first("J Q pass pass"), -1);
  EXPECT_EQ(first("J Q bet pass"), 1);
  EXPECT_EQ(first("K Q pass bet pass"), -1);
  EXPECT_EQ(first("K Q pass bet bet"), 2);
  EXPECT_EQ(first("J K bet bet"), -2);
}

TEST(LeducPoker, PaysWhatTheCardsAndBetsSay) {
  const auto first = [](const char* moves) {
    return LeducPoker::from_position(moves).returns()[0];
  };
  EXPECT_EQ(first("Ks Qs call raise fold"), -1);
  EXPECT_EQ(first("Ks Qs raise fold"), 1);
  EXPECT_EQ(first("Ks Qs raise raise call Qh call call"), -5);  // a pair of queens
  EXPECT_EQ(first("Ks Qs raise raise call Js raise raise call"), 13);
  EXPECT_EQ(first("Ks Kh call call Qs raise call"), 0);
}

}  // namespace
}  // namespace mstrain::mcts
