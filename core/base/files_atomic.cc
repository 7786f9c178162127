// What is durable and atomic on top of any FileSystem.
#include <cerrno>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files.h"

namespace mstrain {

void create_directories_durably(FileSystem& files, const std::string& path) {
  std::vector<std::string> missing;
  for (std::string at = path; !files.exists(at); at = parent_path(at)) {
    missing.push_back(at);
  }
  files.create_directories(path);
  for (auto it = missing.rbegin(); it != missing.rend(); ++it) {
    files.sync_directory(parent_path(*it));
  }
}

std::string follow_links(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as the kernel follows
  fs::path target = path;
  if (!target.has_filename() && target.has_relative_path()) {
    target = target.parent_path();  // "link/" is the link, too
  }
  std::error_code error;  // of what cannot be looked at, writing tells
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    if (links == kMostLinks) {
      throw IoError(path + ": is a link that leads to itself", ELOOP);
    }
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  return target.string();
}

std::string replaced_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::string target = follow_links(path);
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  if (fs::is_directory(status)) {
    throw IoError(path + ": is a folder; expected a file, such as one in it", EISDIR);
  }
  if (fs::is_other(status)) {
    throw IoError(path + ": is a device or a pipe, which cannot be replaced; expected a file");
  }
  return target;
}

void write_file_atomic(FileSystem& files, const std::string& name,
                       std::span<const std::byte> bytes) {
  const std::string path = replaced_file(name);
  const std::string temporary = temporary_name(path);
  try {
    const std::unique_ptr<WritableFile> file = files.open(temporary, WriteMode::kTruncate);
    file->append(bytes);
    file->sync();
    file->close();
    files.rename(temporary, path);
  } catch (...) {
    try {
      files.remove(temporary);
    } catch (const IoError&) {
      // The first error is the one to report; a leftover temporary harms nobody.
    }
    throw;
  }
  files.sync_directory(parent_path(path));
}

}  // namespace mstrain
