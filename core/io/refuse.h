// How readers say what is wrong with a file.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

#include "core/base/error.h"

namespace mstrain {

[[noreturn]] inline void refuse(const std::string& file, const std::string& message) {
  throw IoError(fmt::format("{}: {}", file, message));
}
[[noreturn]] inline void refuse(const std::string& file, uint64_t offset,
                                const std::string& message) {
  refuse(file, fmt::format("offset {}: {}", offset, message));
}

}  // namespace mstrain
