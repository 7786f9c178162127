// What is dear to make and is found on disk by later runs: compiled kernels, algorithms of products.
#pragma once

#include <string>

#include "core/base/files.h"

namespace mstrain::cuda {

// MSTRAIN_CUDA_CACHE, else a folder of the user's cache.
std::string cache_folder();

// What keep_file() has written there; empty where nothing is, or it is damaged. Thread-safe.
std::string kept_file(FileSystem& files, const std::string& path);

// Creates its folder. False where that cannot be, of which a warning tells the first time. Thread-safe.
bool keep_file(FileSystem& files, const std::string& path, const std::string& content);

}  // namespace mstrain::cuda
