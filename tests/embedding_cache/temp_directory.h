// A directory of its own for a test, removed afterwards. In memory where the machine has such a file system: these tests sync thousands
// of files, and what they check does not depend on how long that takes.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "core/base/paths.h"

namespace mstrain::embedding_cache {

class TempDirectory {
 public:
  TempDirectory() {
    static std::atomic<int> count = 0;
    const bool shared_memory = ::access("/dev/shm", W_OK) == 0;
    path_ = ((shared_memory ? "/dev/shm" : std::filesystem::temp_directory_path()) /
             std::filesystem::path("mstrain-ec-" + std::to_string(::getpid()) + "-" +
                                   std::to_string(count++)))
                .string();
    std::filesystem::remove_all(path_);
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

}  // namespace mstrain::embedding_cache
