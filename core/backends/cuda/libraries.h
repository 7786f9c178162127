// NVIDIA's libraries, which are not linked but looked for when work needs them.
#pragma once

#include <string>
#include <vector>

#include "core/base/shared_library.h"

namespace mstrain::cuda {

// lib<name>.so.<version> of the first version that is there: where the system looks, and in the toolkit's folder (CUDA_HOME, CUDA_PATH,
// /usr/local/cuda). Throws Error that says where it was looked for.
SharedLibrary nvidia_library(const std::string& name, const std::vector<std::string>& versions);

}  // namespace mstrain::cuda
