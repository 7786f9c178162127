// What to say of a path where nothing is.
#pragma once

#include <string>

#include "core/base/files.h"

namespace mstrain {

// Throws IoError (ENOENT) that names `path`, the first part of it that is missing, and what comes nearest to it in the deepest
// folder that exists.
[[noreturn]] void fail_missing(FileSystem& files, const std::string& path);
// The same, unless there is something.
void check_exists(FileSystem& files, const std::string& path);

}  // namespace mstrain
