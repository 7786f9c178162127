// NVIDIA's libraries, which are not linked but looked for when work needs them.
#pragma once

#include <string>
#include <vector>

namespace mstrain::cuda {

class Library {
 public:
  // Loads lib<name>.so.<version> of the first version that is there: where the system looks, and in the toolkit's folder (CUDA_HOME,
  // CUDA_PATH, /usr/local/cuda). It stays. Throws Error that says where it was looked for.
  // `apart`: with all that it needs in a copy of its own.
  Library(const std::string& name, const std::vector<std::string>& versions, bool apart = false);

  // Throws Error where it has no such function.
  template <class F>
  void find(const char* symbol, F& function) const {
    function = reinterpret_cast<F>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;

  std::string path_;
  void* handle_ = nullptr;
};

}  // namespace mstrain::cuda
