#include "core/backends/cuda/libraries.h"

#include <fmt/ranges.h>

#include <cstdlib>

#include "core/base/error.h"

namespace mstrain::cuda {

SharedLibrary nvidia_library(const std::string& name, const std::vector<std::string>& versions) {
  std::vector<std::string> folders{""};
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const root = std::getenv(variable)) {
      folders.push_back(std::string(root) + "/lib64/");
    }
  }
  folders.emplace_back("/usr/local/cuda/lib64/");
  std::vector<std::string> paths;
  for (const std::string& version : versions) {
    for (const std::string& folder : folders) {
      paths.push_back(fmt::format("{}lib{}.so.{}", folder, name, version));
    }
  }
  try {
    return SharedLibrary(paths);
  } catch (const Error&) {
    fail("there is no lib{}.so.{} where the system looks for libraries, nor in {}", name,
         versions[0], fmt::join(folders.begin() + 1, folders.end(), " or "));
  }
}

}  // namespace mstrain::cuda
