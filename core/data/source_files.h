// From what a configuration names to a list of files: a path, a folder or a pattern.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"

namespace mstrain {

struct SourceFile {
  std::string path;
  std::string
      name;  // relative to the folder or the pattern's fixed part: the same wherever the data lie
  int64_t bytes = 0;
};

// The files of `source`, sorted by name:
// - a file: itself, which must not be empty;
// - a folder: its files at any depth that end in one of `extensions` ("h" or ".h"; "" is a name
//   without a dot; none given: all). Links are followed, each folder is visited once, and names
//   that begin with a dot, empty files and what is no regular file are passed over;
// - a pattern with * ? [ ] in any component and ** for any number of folders: every match, folders
//   as above. Throws IoError naming `source` where nothing is found, with the nearest name that
//   exists.
std::vector<SourceFile> find_source_files(FileSystem& files, const std::string& source,
                                          std::span<const std::string> extensions = {});

// Throws IoError where `file`, however it is spelled, is one of `seen`, to which it is added otherwise. `by` names who lists files,
// `source` the one that it comes from.
void refuse_twice(std::set<std::string>& seen, const SourceFile& file, std::string_view by,
                  const std::string& source);

// When it was written, by the clock of the file system; 0 where that cannot be told.
int64_t time_of_file(const std::string& path);

}  // namespace mstrain
