// What lies at a path, for people.
#pragma once

#include <cstdio>
#include <string>

#include "core/base/files.h"

namespace mstrain::launcher {

// Prints what a run directory, checkpoint, safetensors, npy, IDX or event file, or a text file holds. Throws IoError for
// a file that is damaged, and for one of no known kind.
void inspect_path(FileSystem& files, const std::string& path, std::FILE* out);

}  // namespace mstrain::launcher
