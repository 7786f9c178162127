#include "mcts/games/connect_four.h"
#include "mcts/games/othello.h"
#include "mcts/games/tic_tac_toe.h"
#include "mcts/play/playable_of.h"

namespace mstrain::mcts::play {

template std::unique_ptr<Playable> make_playable<TicTacToe>();
template std::unique_ptr<Playable> make_playable<ConnectFour>();
template std::unique_ptr<Playable> make_playable<Othello<8>>();
template std::unique_ptr<Playable> make_playable<Othello<6>>();
template std::unique_ptr<Playable> make_playable<Othello<4>>();

}  // namespace mstrain::mcts::play
