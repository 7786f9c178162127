#include "core/base/paths.h"

#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "core/base/hash.h"

namespace mstrain {

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty() || name.starts_with('/')) {
    return std::string(name);
  }
  return fmt::format("{}{}{}", directory, directory.ends_with('/') ? "" : "/", name);
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return ".";
  }
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

std::string file_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) {
    return path;
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    const passwd* user = getpwuid(getuid());
    home = user == nullptr ? nullptr : user->pw_dir;
  }
  return home == nullptr ? path : home + path.substr(1);
}

std::string temporary_name(std::string_view path) {
  static std::atomic<uint64_t> counter{0};
  static const uint64_t process = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }();
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  // A forked child shares `process` and the counter, hence the process id.
  const uint64_t id =
      hash_combine(hash_combine(process, static_cast<uint64_t>(::getpid())), ++counter);
  return fmt::format("{}.tmp-{:016x}", path, id);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

}  // namespace mstrain
