// Games of the library as tables of C functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "mcts/c_api/mstrain_mcts.h"

namespace mstrain::mcts {

// Null behind the last.
const char* shipped_name(uint32_t number);
// Null where there is none of that name.
const mst_mcts_game* shipped_game(std::string_view name);
// False where `game` is not one of shipped_game().
bool write_initial_state(const mst_mcts_game& game, void* state);

}  // namespace mstrain::mcts
