// Folders that a suite brings, for mstrain inspect.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "core/base/files.h"

namespace mstrain {

// Known by a file that is in it.
struct FolderKind {
  std::string file;  // "prepared.json"
  std::string what;  // "what mstrain preprocess makes"
  void (*print)(FileSystem& files, const std::string& path, std::FILE* out);
};
void add_folder_kind(const FolderKind& kind);  // once for each file
const std::vector<FolderKind>& folder_kinds();

}  // namespace mstrain
