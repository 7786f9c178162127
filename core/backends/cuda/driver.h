// NVIDIA's driver, which is not linked but looked for when somebody asks: the same program runs where there is none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mstrain::cuda {

inline constexpr const char* kDriverLibrary = "libcuda.so.1";

struct DeviceFacts {
  std::string name;
  int64_t memory_bytes = 0;
  int major = 0, minor = 0;  // of its compute capability
};

struct FoundDevices {
  std::string
      missing;  // why there is none: no driver, an old one, or what it said; empty: there are devices
  int driver_version = 0;  // of the CUDA that it serves, 13000 for 13.0; 0: not known
  std::vector<DeviceFacts> devices;
};

// Loads the driver, which then stays, and asks it. Never throws for what it finds.
FoundDevices look_for_devices(const std::string& library = kDriverLibrary);

}  // namespace mstrain::cuda
