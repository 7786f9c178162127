// Where the tiles of a program lie, and how large they are.
#pragma once

#include <map>

#include "core/backends/cpu/tile_program.h"

namespace mstrain::cpu {

// Memory that a register needs in every thread.
struct TileNeed {
  Register reg = 0;
  TileStep::Count count = TileStep::Count::kFull;
  int width = 0;              // bytes of an element
  bool once = false;          // lives throughout
  int first = -1, last = -1;  // steps; found by lay_out
};

// Completes a program whose steps are known: rows and elements of a tile, memory of the registers that need it (they take
// turns), of sums and of the table of `registers`, and which outputs may lie over inputs. `by_rows`: tiles are rows.
void lay_out(TileProgram& program, std::map<Register, TileNeed> needs, Register registers,
             bool whole_rows, bool by_rows);

}  // namespace mstrain::cpu
