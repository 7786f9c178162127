// The table of all operations.
#pragma once

namespace mstrain {

// Fills the table; once, at start-up.
void register_all_ops();

}  // namespace mstrain
