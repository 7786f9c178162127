#include "core/data/source_files.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/missing_file.h"

namespace mstrain {
namespace {

bool has_extension(std::string_view name, std::span<const std::string> extensions) {
  if (extensions.empty()) {
    return true;
  }
  const size_t dot = name.rfind('.');
  const std::string_view own = dot == name.npos ? std::string_view() : name.substr(dot + 1);
  return std::any_of(extensions.begin(), extensions.end(), [&](std::string_view extension) {
    extension.remove_prefix(extension.starts_with('.') ? 1 : 0);
    return extension == own;
  });
}

bool is_regular(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

class Walk {
 public:
  Walk(FileSystem& files, std::span<const std::string> extensions)
      : files_(files), extensions_(extensions) {}

  void add_file(const std::string& path, const std::string& name) {
    const auto bytes = static_cast<int64_t>(files_.file_size(path));
    if (bytes > 0 && paths_.insert(path).second) {
      found_.push_back({path, name, bytes});
    }
  }

  void add_folder(const std::string& path, const std::string& prefix) {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (error || !folders_.insert(real.string()).second) {
      return;
    }
    for (const std::string& entry : files_.list(path)) {
      if (entry.starts_with('.')) {
        continue;
      }
      const std::string inner = join_path(path, entry);
      if (files_.is_directory(inner)) {
        add_folder(inner, prefix + entry + "/");
      } else if (has_extension(entry, extensions_) && is_regular(inner)) {
        add_file(inner, prefix + entry);
      }
    }
  }

  // `components` are what is left of a pattern below the existing folder `path`.
  void add_pattern(const std::string& path, const std::string& prefix,
                   std::span<const std::string> components) {
    const std::string& component = components.front();
    const auto rest = components.subspan(1);
    if (component == "**" && !rest.empty()) {
      add_pattern(path, prefix, rest);
    }
    for (const std::string& entry : files_.list(path)) {
      const std::string inner = join_path(path, entry);
      const bool folder = files_.is_directory(inner);
      if (component == "**") {
        if (entry.starts_with('.')) {
          continue;
        }
        if (folder && enter(inner)) {
          add_pattern(inner, prefix + entry + "/", components);
          leave();
        } else if (!folder && rest.empty() && is_regular(inner)) {
          add_file(inner, prefix + entry);
        }
      } else if (fnmatch(component.c_str(), entry.c_str(), FNM_PERIOD) == 0) {
        if (!rest.empty() && folder) {
          add_pattern(inner, prefix + entry + "/", rest);
        } else if (rest.empty() && folder) {
          add_folder(inner, prefix + entry + "/");
        } else if (rest.empty() && is_regular(inner)) {
          add_file(inner, prefix + entry);
        }
      }
    }
  }

  std::vector<SourceFile> finish() {
    std::sort(found_.begin(), found_.end(),
              [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
    return std::move(found_);
  }

 private:
  // Keeps "**" out of folders that a link leads back to.
  bool enter(const std::string& path) {
    std::error_code error;
    std::string real = std::filesystem::canonical(path, error).string();
    if (error || std::find(inside_.begin(), inside_.end(), real) != inside_.end()) {
      return false;
    }
    inside_.push_back(std::move(real));
    return true;
  }
  void leave() { inside_.pop_back(); }

  FileSystem& files_;
  std::span<const std::string> extensions_;
  std::vector<SourceFile> found_;
  std::set<std::string> paths_;
  std::set<std::string> folders_;
  std::vector<std::string> inside_;
};

bool is_pattern(std::string_view text) { return text.find_first_of("*?[") != text.npos; }

// Cuts a pattern into the folder before its first wildcard and the components from there on.
std::pair<std::string, std::vector<std::string>> split_pattern(const std::string& pattern) {
  std::string base;
  std::vector<std::string> components;
  for (const auto& part : std::filesystem::path(pattern)) {
    if (components.empty() && !is_pattern(part.string())) {
      base = base.empty() ? part.string() : join_path(base, part.string());
    } else if (!part.empty()) {
      components.push_back(part.string());
    }
  }
  return {base.empty() ? "." : base, components};
}

}  // namespace

std::vector<SourceFile> find_source_files(FileSystem& files, const std::string& source,
                                          std::span<const std::string> extensions) {
  check(!source.empty(), "a data source must not be an empty path");
  Walk walk(files, extensions);
  if (files.is_directory(source)) {
    walk.add_folder(source, "");
  } else if (files.exists(source)) {
    walk.add_file(source, file_name(source));
  } else if (is_pattern(source)) {
    const auto [base, components] = split_pattern(source);
    if (!files.is_directory(base)) {
      fail_missing(files, base);
    }
    walk.add_pattern(base, "", components);
  } else {
    fail_missing(files, source);
  }
  std::vector<SourceFile> found = walk.finish();
  if (found.empty()) {
    if (files.is_directory(source)) {
      const std::string kind =
          extensions.empty() ? "" : fmt::format(" with extension {}", fmt::join(extensions, ", "));
      throw IoError(fmt::format("{}: the folder holds no file{} that is not empty", source, kind));
    }
    if (files.exists(source) && !is_regular(source)) {
      throw IoError(source +
                    ": is a pipe or a device, which can be read once; expected a file or a folder");
    }
    throw IoError(files.exists(source)
                      ? fmt::format("{}: the file is empty", source)
                      : fmt::format("{}: no file that is not empty matches", source));
  }
  return found;
}

void refuse_twice(std::set<std::string>& seen, const SourceFile& file, std::string_view by,
                  const std::string& source) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(file.path, error);
  if (!error && !seen.insert(real.string()).second) {
    throw IoError(
        fmt::format("{}: named twice by {}, the second time by {}", file.path, by, source));
  }
}

int64_t time_of_file(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? 0 : static_cast<int64_t>(time.time_since_epoch().count());
}

}  // namespace mstrain
