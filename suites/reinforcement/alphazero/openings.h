// The positions that games of a match begin at.
#pragma once

#include <string>
#include <vector>

#include "suites/reinforcement/alphazero/board_game.h"

namespace mstrain::alphazero {

// `count` different positions of one number of moves from the start. Four times as many, of the least number of moves at which there are
// so many without an end, are drawn by `seed`; of these those that look most even to a search with random games, as what one colour wins
// whoever plays it says nothing of the players. Throws Error where the game has not so many.
std::vector<AnyGame> openings(const BoardGame& game, int64_t count, uint64_t seed);

// Throws ConfigError, beginning with `where`, for a match of `games` that the game has too few openings for: two games from each.
void check_openings(const BoardGame& game, int64_t games, const std::string& where);

}  // namespace mstrain::alphazero
