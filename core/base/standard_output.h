// The end of what a program prints.
#pragma once

namespace mstrain {

// Writes what still waits for standard output. Throws IoError where some of what was printed could not be written, as on a full disk; not
// where nobody reads it any more.
void finish_output();

}  // namespace mstrain
