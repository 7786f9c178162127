#include "mcts/games/go.h"
#include "mcts/games/gomoku.h"
#include "mcts/games/hex.h"
#include "mcts/play/playable_of.h"

namespace mstrain::mcts::play {

template std::unique_ptr<Playable> make_playable<Gomoku<15>>();
template std::unique_ptr<Playable> make_playable<Gomoku<7>>();
template std::unique_ptr<Playable> make_playable<Go<9>>();
template std::unique_ptr<Playable> make_playable<Go<7>>();
template std::unique_ptr<Playable> make_playable<Go<5>>();
template std::unique_ptr<Playable> make_playable<Hex<11>>();
template std::unique_ptr<Playable> make_playable<Hex<7>>();
template std::unique_ptr<Playable> make_playable<Hex<5>>();

}  // namespace mstrain::mcts::play
