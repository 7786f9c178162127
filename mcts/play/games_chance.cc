#include "mcts/games/game_2048.h"
#include "mcts/games/kuhn_poker.h"
#include "mcts/games/leduc_poker.h"
#include "mcts/games/peg_solitaire.h"
#include "mcts/games/racetrack.h"
#include "mcts/play/game_program.h"

namespace mstrain::mcts::play {

template std::unique_ptr<Program> make_program<Game2048>();
template std::unique_ptr<Program> make_program<KuhnPoker>();
template std::unique_ptr<Program> make_program<LeducPoker>();
template std::unique_ptr<Program> make_program<PegSolitaire>();
template std::unique_ptr<Program> make_program<Racetrack>();

}  // namespace mstrain::mcts::play
