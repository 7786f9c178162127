#include "suites/recommender/data/source_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "core/base/json.h"
#include "core/data/source_files.h"

namespace mstrain::recommender {

std::string name_of(const std::string& path) {
  const Json name = std::filesystem::path(path).filename().string();
  return Json::parse(name.dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::vector<std::string> matching_files(FileSystem& files, const std::string& pattern) {
  if (files.exists(pattern)) {
    return {pattern};
  }
  std::vector<std::string> out;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return out;
}

std::vector<SourceFile> source_files(FileSystem& files, const std::vector<std::string>& paths) {
  std::vector<SourceFile> out;
  for (const std::string& path : paths) {
    out.push_back({name_of(path), files.file_size(path), time_of_file(path)});
  }
  return out;
}

bool have_same_names(const std::vector<SourceFile>& a, const std::vector<SourceFile>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const SourceFile& x, const SourceFile& y) { return x.name == y.name; });
}

std::string names_of(const std::vector<SourceFile>& sources) {
  constexpr size_t kShown = 3;
  std::string out;
  for (size_t i = 0; i < std::min(kShown, sources.size()); ++i) {
    out += (i == 0 ? "" : ", ") + sources[i].name;
  }
  return sources.size() <= kShown ? out
                                  : fmt::format("{} and {} others", out, sources.size() - kShown);
}

}  // namespace mstrain::recommender
