#include "core/backends/cuda/register.h"

#include <fmt/format.h>

#include "core/backends/cuda/driver.h"
#include "core/ir/backend.h"

namespace mstrain {
namespace {

std::string what_is_missing() {
#ifdef MSTRAIN_WITHOUT_CUDA
  return "no device: built without CUDA";
#else
  static const cuda::FoundDevices found = cuda::look_for_devices();
  if (!found.missing.empty()) {
    return "no device: " + found.missing;
  }
  const cuda::DeviceFacts& device = found.devices[0];
  return fmt::format(
      "{}, {:.1f} GB, sm_{}{}, CUDA {}.{}: plans are made for it, and nothing runs on it yet",
      device.name, static_cast<double>(device.memory_bytes) / 1e9, device.major, device.minor,
      found.driver_version / 1000, found.driver_version % 1000 / 10);
#endif
}

}  // namespace

void add_cuda_backend() {
  add_backend({.name = "cuda", .computes = false, .missing = what_is_missing});
}

}  // namespace mstrain
