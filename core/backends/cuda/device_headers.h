// What kernels include, as this program was built with it: made by embed.cmake.
#pragma once

#include <string_view>
#include <vector>

namespace mstrain::cuda {

struct DeviceHeader {
  const char* path;  // as texts include it: "core/ops/scalar_math.h"
  const char* content;
};
const std::vector<DeviceHeader>& device_headers();

}  // namespace mstrain::cuda
