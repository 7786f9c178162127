// Every game that comes with the library, through the checks that a game of a user's own gets.
#include <gtest/gtest.h>

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
#include "mcts/games/racetrack.h"
#include "mcts/games/tic_tac_toe.h"

namespace mstrain::mcts {
namespace {

using conformance::check_game;

TEST(TicTacToe, Conforms) { check_game<TicTacToe>({.playouts = 200}); }
TEST(ConnectFour, Conforms) { check_game<ConnectFour>({.playouts = 60}); }
TEST(Othello, Conforms) { check_game<Othello<8>>({.playouts = 6, .costly_every = 29}); }
TEST(Othello, ConformsOnSixBySix) { check_game<Othello<6>>({.playouts = 10, .costly_every = 19}); }
TEST(Othello, ConformsOnFourByFour) { check_game<Othello<4>>({.playouts = 40}); }
TEST(Gomoku, Conforms) { check_game<Gomoku<15>>({.playouts = 1, .costly_every = 101}); }
TEST(Gomoku, ConformsOnSevenBySeven) { check_game<Gomoku<7>>({.playouts = 8, .costly_every = 31}); }
TEST(Hex, Conforms) { check_game<Hex<11>>({.playouts = 2, .costly_every = 67}); }
TEST(Hex, ConformsOnFiveByFive) { check_game<Hex<5>>({.playouts = 30}); }
TEST(KuhnPoker, Conforms) { check_game<KuhnPoker>({.playouts = 300}); }
TEST(LeducPoker, Conforms) { check_game<LeducPoker>({.playouts = 200}); }
TEST(PegSolitaire, Conforms) { check_game<PegSolitaire>({.playouts = 30}); }
TEST(Racetrack, Conforms) { check_game<Racetrack>({.playouts = 100}); }
TEST(Game2048, Conforms) { check_game<Game2048>({.playouts = 4, .costly_every = 41}); }

// Go's rollouts fill no eyes.
TEST(Go, Conforms) {
  check_game<Go<9>>({.playouts = 1, .rollout_is_uniform = false, .costly_every = 53});
}
TEST(Go, ConformsOnFiveByFive) {
  check_game<Go<5>>({.playouts = 15, .rollout_is_uniform = false, .costly_every = 31});
}

}  // namespace
}  // namespace mstrain::mcts
