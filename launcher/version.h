// What this program is and what it was built with.
#pragma once

#include <cstdio>

namespace mstrain::launcher {

// Version, compiler, the instruction set in use, the Unicode of tokenizers, and each backend with how many operations it
// has kernels for.
void print_version(std::FILE* out);

}  // namespace mstrain::launcher
