// Which commit a folder is checked out at, without git.
#pragma once

#include <optional>
#include <string>

#include "core/base/files.h"

namespace mstrain {

// The commit, as hexadecimal digits, of the work tree that `folder` lies in; none where it lies in none, in one without
// commits, or in one that may not be read. Format: gitrepository-layout(5): HEAD, refs, packed-refs, and .git as a file in linked work trees.
std::optional<std::string> git_commit(FileSystem& files, const std::string& folder);

}  // namespace mstrain
