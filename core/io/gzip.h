// Gzip files (RFC 1952), of one member or many.
#pragma once

#include <string>

#include "core/base/files.h"

namespace mstrain {

// Appends what the file at `path` holds, inflated, in pieces: memory does not grow with it. Throws IoError that starts with the path for
// a stream that is damaged or cut short.
void inflate_gzip(FileSystem& files, const std::string& path, WritableFile& out);
// All of it, in memory.
std::string inflate_gzip(FileSystem& files, const std::string& path);

}  // namespace mstrain
