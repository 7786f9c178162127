// Functions of shared libraries that are looked for at run time.
#pragma once

#include <string>

namespace mstrain {

// The function `symbol` of the library at `path`, which stays loaded until the process ends. Throws Error that names the file: it is
// not there, cannot be loaded, or has no such function; `what` says what it should have been, as in "an environment in C".
void* function_of_library(const std::string& path, const char* symbol, const char* what);

}  // namespace mstrain
