#include "mcts/games/game_2048.h"
#include "mcts/games/kuhn_poker.h"
#include "mcts/games/leduc_poker.h"
#include "mcts/games/peg_solitaire.h"
#include "mcts/games/racetrack.h"
#include "mcts/play/playable_of.h"

namespace mstrain::mcts::play {

template std::unique_ptr<Playable> make_playable<Game2048>();
template std::unique_ptr<Playable> make_playable<KuhnPoker>();
template std::unique_ptr<Playable> make_playable<LeducPoker>();
template std::unique_ptr<Playable> make_playable<PegSolitaire>();
template std::unique_ptr<Playable> make_playable<Racetrack>();

}  // namespace mstrain::mcts::play
