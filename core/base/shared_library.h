// Functions of shared libraries that are looked for at run time.
#pragma once

#include <string>
#include <vector>

namespace mstrain {

// One that was loaded. It stays until the process ends.
class SharedLibrary {
 public:
  // The first of `paths` that can be loaded; a name without a folder is looked for where the system does. Throws Error with what the last
  // one failed with.
  explicit SharedLibrary(const std::vector<std::string>& paths);

  // Throws Error where it has no such function.
  template <class F>
  void find(const char* symbol, F& function) const {
    function = reinterpret_cast<F>(function_at(symbol));
  }
  // Of a function or a variable; null where it has none.
  void* address(const char* symbol) const;

 private:
  void* function_at(const char* symbol) const;

  std::string path_;
  void* handle_ = nullptr;
};

// The function `symbol` of the library at `path`, which stays loaded until the process ends. Throws Error that names the file: it is
// not there, cannot be loaded, or has no such function; `what` says what it should have been, as in "an environment in C".
void* function_of_library(const std::string& path, const char* symbol, const char* what);

}  // namespace mstrain
