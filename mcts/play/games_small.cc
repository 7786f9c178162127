#include "mcts/games/connect_four.h"
#include "mcts/games/othello.h"
#include "mcts/games/tic_tac_toe.h"
#include "mcts/play/game_program.h"

namespace mstrain::mcts::play {

template std::unique_ptr<Program> make_program<TicTacToe>();
template std::unique_ptr<Program> make_program<ConnectFour>();
template std::unique_ptr<Program> make_program<Othello<8>>();
template std::unique_ptr<Program> make_program<Othello<6>>();
template std::unique_ptr<Program> make_program<Othello<4>>();

}  // namespace mstrain::mcts::play
