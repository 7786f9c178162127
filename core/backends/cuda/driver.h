// NVIDIA's driver, which is not linked but looked for when somebody asks: the same program runs where there is none.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace mstrain::cuda {

inline constexpr const char* kDriverLibrary = "libcuda.so.1";

struct DeviceFacts {
  std::string name;
  std::array<char, 16> uuid{};  // which of all cards it is
  int64_t memory_bytes = 0;
  int major = 0, minor = 0;  // of its compute capability
  int processors = 1;
};

struct FoundDevices {
  std::string
      missing;  // why there is none: no driver, an old one, or what it said; empty: there are devices
  int driver_version = 0;  // of the CUDA that it serves, 13000 for 13.0; 0: not known
  std::vector<DeviceFacts> devices;
};

// Loads the driver, which then stays, and asks it. Never throws for what it finds.
FoundDevices look_for_devices(const std::string& library = kDriverLibrary);

// What work asks of the driver (CUDA driver API, cuda.h); its types by what they are.
struct Driver {
  using Result = int;                  // CUresult
  using Address = unsigned long long;  // CUdeviceptr
  using Handle = void*;                // of a context, stream, event, module, function or graph

  Result (*retain_context)(Handle* context, int device);
  Result (*set_context)(Handle context);
  Result (*allocate)(Address* at, size_t bytes);
  Result (*release)(Address at);
  Result (*allocate_host)(void** at, size_t bytes, unsigned flags);
  Result (*release_host)(void* at);
  Result (*memory_info)(size_t* free, size_t* all);
  Result (*create_stream)(Handle* stream, unsigned flags);
  Result (*wait_stream)(Handle stream);
  Result (*stream_waits)(Handle stream, Handle event, unsigned flags);
  Result (*copy)(Address to, Address from, size_t bytes, Handle stream);
  Result (*create_event)(Handle* event, unsigned flags);
  Result (*destroy_event)(Handle event);
  Result (*record_event)(Handle event, Handle stream);
  Result (*query_event)(Handle event);
  Result (*wait_event)(Handle event);
  Result (*time_between)(float* milliseconds, Handle begin, Handle end);
  Result (*load_module)(Handle* module, const void* image);
  Result (*find_function)(Handle* function, Handle module, const char* name);
  Result (*set_attribute)(Handle function, int attribute, int value);
  Result (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   Handle stream, void** parameters, void** extra);
  Result (*begin_capture)(Handle stream, int mode);
  Result (*end_capture)(Handle stream, Handle* graph);
  Result (*instantiate)(Handle* executable, Handle graph, unsigned long long flags);
  Result (*launch_graph)(Handle executable, Handle stream);
  Result (*destroy_executable)(Handle executable);
  Result (*destroy_graph)(Handle graph);
};

// Throws Error where there is no driver, or it lacks one of these.
const Driver& driver();

// Throws Error with what the driver calls `result`, unless it is success.
void check_driver(Driver::Result result, const char* function);

}  // namespace mstrain::cuda
