// `mstrain arena`, and what `mstrain play` does with a checkpoint of AlphaZero.
#pragma once

namespace mstrain::alphazero {

void add_alphazero_commands();

}  // namespace mstrain::alphazero
