#include "mcts/games/go.h"
#include "mcts/games/gomoku.h"
#include "mcts/games/hex.h"
#include "mcts/play/game_program.h"

namespace mstrain::mcts::play {

template std::unique_ptr<Program> make_program<Gomoku<15>>();
template std::unique_ptr<Program> make_program<Gomoku<7>>();
template std::unique_ptr<Program> make_program<Go<9>>();
template std::unique_ptr<Program> make_program<Go<7>>();
template std::unique_ptr<Program> make_program<Go<5>>();
template std::unique_ptr<Program> make_program<Hex<11>>();
template std::unique_ptr<Program> make_program<Hex<7>>();
template std::unique_ptr<Program> make_program<Hex<5>>();

}  // namespace mstrain::mcts::play
