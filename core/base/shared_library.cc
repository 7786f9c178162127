#include "core/base/shared_library.h"

#include <dlfcn.h>

#include "core/base/error.h"
#include "core/base/files.h"

namespace mstrain {

void* function_of_library(const std::string& path, const char* symbol, const char* what) {
  check(real_files().exists(path), "{}: there is no such library", path);
  // A name without a slash would be looked for elsewhere.
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;
  void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  check(library != nullptr, "{}: cannot be loaded: {}", path, library != nullptr ? "" : dlerror());
  void* function = dlsym(library, symbol);
  check(function != nullptr, "{}: has no {}(); is it {}?", path, symbol, what);
  return function;
}

}  // namespace mstrain
