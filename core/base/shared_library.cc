#include "core/base/shared_library.h"

#include <dlfcn.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/missing_file.h"

namespace mstrain {

SharedLibrary::SharedLibrary(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    path_ = path;
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      return;
    }
  }
  fail("{}", dlerror());
}

void* SharedLibrary::address(const char* symbol) const { return dlsym(handle_, symbol); }

void* SharedLibrary::function_at(const char* symbol) const {
  void* const found = address(symbol);
  check(found != nullptr, "{} has no {}", path_, symbol);
  return found;
}

void* function_of_library(const std::string& path, const char* symbol, const char* what) {
  check_exists(real_files(), path);
  const auto load = [&] {
    try {
      // A name without a slash would be looked for elsewhere.
      return SharedLibrary({path.find('/') == std::string::npos ? "./" + path : path});
    } catch (const Error& error) {
      fail("{}: cannot be loaded: {}", path, error.what());
    }
  };
  void* const function = load().address(symbol);
  check(function != nullptr, "{}: has no {}(); is it {}?", path, symbol, what);
  return function;
}

}  // namespace mstrain
