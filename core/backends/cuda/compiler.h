// NVRTC, looked for at run time, and what it has made: kept on disk by what it was made of.
#pragma once

#include <string>
#include <vector>

#include "core/base/files.h"

namespace mstrain::cuda {

// Why no kernel can be compiled here; empty: they can.
std::string missing_compiler();

// "sm_90a": what is compiled for a compute capability.
std::string architecture_of(int major, int minor);

// Machine code of a text. Throws Error with what the compiler said. Thread-safe.
std::string compile_text(const std::string& text, const std::string& architecture);

// The same for many, several at a time, from `folder` where it was kept there: a damaged file is made again, and one that cannot be
// written costs no more than that. In the order of `texts`.
std::vector<std::string> compiled(FileSystem& files, const std::string& folder,
                                  const std::vector<std::string>& texts,
                                  const std::string& architecture);

}  // namespace mstrain::cuda
