#include "core/base/missing_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>

#include "core/base/error.h"

namespace mstrain {

void fail_missing(FileSystem& files, const std::string& path) {
  std::string missing = path;
  while (missing.size() > 1 && missing.ends_with('/')) {
    missing.pop_back();
  }
  for (std::string parent = parent_path(missing); parent != missing;
       parent = parent_path(missing)) {
    if (!files.exists(parent)) {
      missing = parent;
      continue;
    }
    std::string hint;
    if (std::error_code error; std::filesystem::is_symlink(missing, error)) {
      hint = fmt::format("; the link leads to {}, where nothing is", follow_links(missing));
    } else if (files.is_directory(parent)) {
      const std::vector<std::string> names = files.list(parent);
      const std::string best = nearest(file_name(missing), names);
      if (!best.empty()) {
        hint = fmt::format("; did you mean {}?", parent == "." ? best : join_path(parent, best));
      }
    }
    const std::string what = missing == path ? "" : fmt::format(" ({} is missing)", missing);
    throw IoError(fmt::format("{}: no such file or folder{}{}", path, what, hint), ENOENT);
  }
  throw IoError(fmt::format("{}: no such file or folder", path), ENOENT);
}

void check_exists(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) {
    fail_missing(files, path);
  }
}

}  // namespace mstrain
