#include "core/backends/cuda/kept_files.h"

#include <atomic>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/paths.h"

namespace mstrain::cuda {

std::string cache_folder() {
  if (const char* const given = std::getenv("MSTRAIN_CUDA_CACHE")) {
    return given;
  }
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  return join_path(cache != nullptr && *cache != 0 ? cache : expand_home("~/.cache"),
                   "mstrain/kernels");
}

// A file is the hash of its content, then that.
std::string kept_file(FileSystem& files, const std::string& path) {
  try {
    const std::string file = files.exists(path) ? files.read(path) : "";
    const size_t digits = to_string(Hash128{}).size();
    if (file.size() <= digits) {
      return "";
    }
    std::string content = file.substr(digits);
    return to_string(hash_bytes(content)) == file.substr(0, digits) ? content : "";
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it is made again
    return "";
  }
}

bool keep_file(FileSystem& files, const std::string& path, const std::string& content) {
  try {
    files.create_directories(parent_path(path));
    write_file_atomic(files, path, to_string(hash_bytes(content)) + content);
    return true;
  } catch (const Error& error) {
    static std::atomic<bool> told = false;
    if (!told.exchange(true)) {
      log_warning("compiled kernels are not kept for later runs: {}", error.what());
    }
    return false;
  }
}

}  // namespace mstrain::cuda
