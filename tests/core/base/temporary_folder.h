// A fresh folder for one test, removed with all it holds when the test ends.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/files.h"

namespace mstrain {

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(temporary_name((std::filesystem::temp_directory_path() / "mstrain_test").string())) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

}  // namespace mstrain
