// The files of text that data.train names, and what tells them from others.
#pragma once

#include <string>
#include <vector>

#include "core/base/files.h"

namespace mstrain::recommender {

struct SourceFile {
  std::string name;  // without its folder, which may be called otherwise from elsewhere
  uint64_t bytes = 0;
  int64_t modified = 0;  // by the clock of the file system

  friend bool operator==(const SourceFile&, const SourceFile&) = default;
};

// Without its folder; bytes that are no UTF-8, and so in no JSON, replaced.
std::string name_of(const std::string& path);
// The file that is called so, or those that match, in the order of their names; empty: there is none.
std::vector<std::string> matching_files(FileSystem& files, const std::string& pattern);
std::vector<SourceFile> source_files(FileSystem& files, const std::vector<std::string>& paths);

bool have_same_names(const std::vector<SourceFile>& a, const std::vector<SourceFile>& b);
// "day_0.tsv, day_1.tsv and 22 others".
std::string names_of(const std::vector<SourceFile>& sources);

}  // namespace mstrain::recommender
