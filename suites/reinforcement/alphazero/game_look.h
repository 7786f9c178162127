// Games of self-play as people see them, in the report.
#pragma once

#include "suites/reinforcement/alphazero/replay.h"
#include "suites/reinforcement/run/look.h"

namespace mstrain::alphazero {

// Every position of the game, with what its search found: discs have the areas of the policy's shares, where a move puts something; a
// dot is on the move that was played. None where the game has no board.
std::vector<reinforcement::Moment> pictures_of(const LearnedGame& game, const BoardGame& rules);

// A part of a row (suites/reinforcement/run/look.h) about the newest iteration: its first game, and the values that its searches found
// beside the results, both of the player to move.
OrderedJson look_at(const Replay& replay, const BoardGame& rules);

}  // namespace mstrain::alphazero
