// The solver that other tests trust, against play to the very end and the game's known value.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/amount.h"
#include "tests/mcts/connect_four_solver.h"

namespace mstrain::mcts {
namespace {

int brute_force(const ConnectFour& state) {
  int best = -100;
  for (const Action column : actions_of(state)) {
    ConnectFour next = state;
    next.apply(column);
    const int stones_left = (43 - state.plies()) / 2;
    const int value = next.player() != kTerminal                                ? -brute_force(next)
                      : next.returns()[static_cast<size_t>(state.player())] > 0 ? stones_left
                                                                                : 0;
    best = std::max(best, value);
  }
  return best;
}

TEST(ConnectFourSolver, AgreesWithPlayToTheEnd) {
  Random rng(20261121);
  ConnectFourSolver solver(1 << 12);  // small, so that entries are replaced
  for (int i = 0; i < repetitions(150); ++i) {
    const ConnectFour state = random_open_position(28 + i % 12, rng);
    const int expected = brute_force(state);
    EXPECT_EQ(solver.score(state), expected) << state.draw();
    EXPECT_EQ(solver.outcome(state), (expected > 0) - (expected < 0)) << state.draw();
  }
}

TEST(ConnectFourSolver, GivesAPositionTheBestOfItsSuccessors) {
  Random rng(5);
  ConnectFourSolver solver(1 << 18);
  for (int i = 0; i < 12; ++i) {
    const ConnectFour state = random_open_position(14 + i, rng);
    int best = -100;
    for (const Action column : actions_of(state)) {
      ConnectFour next = state;
      next.apply(column);
      best = std::max(best, next.player() != kTerminal ? -solver.score(next)
                            : next.returns()[static_cast<size_t>(state.player())] > 0
                                ? (43 - state.plies()) / 2
                                : 0);
    }
    EXPECT_EQ(solver.score(state), best) << state.draw();
  }
}

TEST(ConnectFourSolver, SolvesTwelvePlies) {
  Random rng(12);
  ConnectFourSolver solver;
  for (int i = 0; i < 3; ++i) {
    const ConnectFour state = random_open_position(12, rng);
    const int score = solver.score(state);
    EXPECT_EQ(ConnectFourSolver().outcome(state), (score > 0) - (score < 0));
    EXPECT_EQ(solver.score(state.symmetry(1)), score) << "mirrored:\n" << state.draw();
  }
}

TEST(ConnectFourSolver, ProvesThatTheFirstPlayerWinsInTheCentreOnly) {
  if (!long_tests()) {
    GTEST_SKIP() << "minutes and 1 GiB; set MSTRAIN_LONG_TESTS=1";
  }
  ConnectFourSolver solver(size_t{1} << 27);
  EXPECT_TRUE(solver.wins(ConnectFour()));
  for (Action column = 0; column < 4; ++column) {  // the others are mirrored
    ConnectFour state;
    state.apply(column);
    EXPECT_EQ(solver.loses(state), column == 3) << "column " << column + 1;
  }
}

}  // namespace
}  // namespace mstrain::mcts
