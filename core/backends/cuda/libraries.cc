#include "core/backends/cuda/libraries.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "core/base/error.h"

namespace mstrain::cuda {
namespace {

// NVRTC with libraries of its own below it: it brings parts of a standard library, and would else call the program's in places, and the
// other way round. Sanitizers see but one of each.
void* load(const std::string& path, bool apart) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  apart = false;
#endif
  return apart ? dlmopen(LM_ID_NEWLM, path.c_str(), RTLD_NOW | RTLD_LOCAL)
               : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

Library::Library(const std::string& name, const std::vector<std::string>& versions, bool apart) {
  std::vector<std::string> folders{""};
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const root = std::getenv(variable)) {
      folders.push_back(std::string(root) + "/lib64/");
    }
  }
  folders.emplace_back("/usr/local/cuda/lib64/");
  for (const std::string& version : versions) {
    for (const std::string& folder : folders) {
      path_ = fmt::format("{}lib{}.so.{}", folder, name, version);
      handle_ = load(path_, apart);
      if (handle_ != nullptr) {
        return;
      }
    }
  }
  fail("there is no lib{}.so.{} where the system looks for libraries, nor in {}", name, versions[0],
       fmt::join(folders.begin() + 1, folders.end(), " or "));
}

void* Library::address(const char* symbol) const {
  void* const found = dlsym(handle_, symbol);
  check(found != nullptr, "{} has no {}", path_, symbol);
  return found;
}

}  // namespace mstrain::cuda
