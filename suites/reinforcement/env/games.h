// The games of mcts/ as environments of several agents that act in turns: legal actions by masks, observations as the game gives each
// player, chance drawn from the episode's stream. A step pays each agent what the game pays for it (rewards, and the
// result at the end). A state is saved as the moves that led to it.
#pragma once

namespace mstrain::reinforcement {

// One environment for each of mcts::play::all_games(), by the game's name.
void add_game_environments();

}  // namespace mstrain::reinforcement
