#include "suites/run/folder_kind.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {
namespace {

std::vector<FolderKind>& known_folders() {
  static std::vector<FolderKind> all;
  return all;
}

}  // namespace

void add_folder_kind(const FolderKind& kind) {
  check(std::ranges::none_of(known_folders(),
                             [&](const FolderKind& k) { return k.file == kind.file; }),
        "add_folder_kind: {} is there already", kind.file);
  known_folders().push_back(kind);
}

const std::vector<FolderKind>& folder_kinds() { return known_folders(); }

}  // namespace mstrain
