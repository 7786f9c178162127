#include "core/backends/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "core/base/error.h"

namespace mstrain::cuda {
namespace {

using Result = int;                   // CUresult
using Device = int;                   // CUdevice
constexpr int kCapabilityMajor = 75;  // CUdevice_attribute
constexpr int kCapabilityMinor = 76;
constexpr int kProcessors = 16;

// What is asked of the driver, by the names of its exported functions (CUDA driver API, cuda.h).
struct Functions {
  Result (*init)(unsigned flags);
  Result (*error_name)(Result error, const char** name);
  Result (*driver_version)(int* version);
  Result (*count)(int* count);
  Result (*get)(Device* device, int ordinal);
  Result (*name)(char* name, int length, Device device);
  Result (*uuid)(char* uuid, Device device);
  Result (*memory)(size_t* bytes, Device device);
  Result (*attribute)(int* value, int attribute, Device device);
};

template <class F>
void find(void* library, const char* symbol, F& function) {
  function = reinterpret_cast<F>(dlsym(library, symbol));
  check(function != nullptr, "it has no {}", symbol);
}

Functions functions_of(void* library) {
  Functions f{};
  find(library, "cuInit", f.init);
  find(library, "cuGetErrorName", f.error_name);
  find(library, "cuDriverGetVersion", f.driver_version);
  find(library, "cuDeviceGetCount", f.count);
  find(library, "cuDeviceGet", f.get);
  find(library, "cuDeviceGetName", f.name);
  find(library, "cuDeviceGetUuid_v2", f.uuid);
  find(library, "cuDeviceTotalMem_v2", f.memory);
  find(library, "cuDeviceGetAttribute", f.attribute);
  return f;
}

void ask(const Functions& f, const char* function, Result result) {
  if (result != 0) {
    const char* name = nullptr;
    f.error_name(result, &name);
    fail("{} says {} ({})", function, name == nullptr ? "an error without a name" : name, result);
  }
}

DeviceFacts facts_of(const Functions& f, int ordinal) {
  Device device = 0;
  ask(f, "cuDeviceGet", f.get(&device, ordinal));
  std::array<char, 256> name{};
  ask(f, "cuDeviceGetName", f.name(name.data(), std::ssize(name) - 1, device));
  size_t bytes = 0;
  ask(f, "cuDeviceTotalMem", f.memory(&bytes, device));
  DeviceFacts facts{.name = name.data(), .memory_bytes = static_cast<int64_t>(bytes)};
  ask(f, "cuDeviceGetUuid", f.uuid(facts.uuid.data(), device));
  ask(f, "cuDeviceGetAttribute", f.attribute(&facts.major, kCapabilityMajor, device));
  ask(f, "cuDeviceGetAttribute", f.attribute(&facts.minor, kCapabilityMinor, device));
  ask(f, "cuDeviceGetAttribute", f.attribute(&facts.processors, kProcessors, device));
  return facts;
}

}  // namespace

FoundDevices look_for_devices(const std::string& library) {
  FoundDevices found;
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    found.missing = why == nullptr ? library + ": cannot be loaded" : why;
    return found;
  }
  try {
    const Functions f = functions_of(handle);
    ask(f, "cuInit", f.init(0));
    ask(f, "cuDriverGetVersion", f.driver_version(&found.driver_version));
    int count = 0;
    ask(f, "cuDeviceGetCount", f.count(&count));
    for (int i = 0; i < count; ++i) {
      found.devices.push_back(facts_of(f, i));
    }
    if (count == 0) {
      found.missing = library + ": the driver has no device";
    }
  } catch (const Error& error) {
    found.missing = fmt::format("{}: {}", library, error.what());
  }
  return found;
}

const Driver& driver() {
  static const Driver it = [] {
    void* const library = dlopen(kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
    check(library != nullptr, "{} cannot be loaded", kDriverLibrary);
    Driver d{};
    find(library, "cuDevicePrimaryCtxRetain", d.retain_context);
    find(library, "cuCtxSetCurrent", d.set_context);
    find(library, "cuMemAlloc_v2", d.allocate);
    find(library, "cuMemFree_v2", d.release);
    find(library, "cuMemHostAlloc", d.allocate_host);
    find(library, "cuMemFreeHost", d.release_host);
    find(library, "cuMemGetInfo_v2", d.memory_info);
    find(library, "cuStreamCreate", d.create_stream);
    find(library, "cuStreamSynchronize", d.wait_stream);
    find(library, "cuStreamWaitEvent", d.stream_waits);
    find(library, "cuMemcpyAsync", d.copy);
    find(library, "cuEventCreate", d.create_event);
    find(library, "cuEventDestroy_v2", d.destroy_event);
    find(library, "cuEventRecord", d.record_event);
    find(library, "cuEventQuery", d.query_event);
    find(library, "cuEventSynchronize", d.wait_event);
    find(library, "cuEventElapsedTime", d.time_between);
    find(library, "cuModuleLoadData", d.load_module);
    find(library, "cuModuleGetFunction", d.find_function);
    find(library, "cuFuncSetAttribute", d.set_attribute);
    find(library, "cuLaunchKernel", d.launch);
    find(library, "cuStreamBeginCapture_v2", d.begin_capture);
    find(library, "cuStreamEndCapture", d.end_capture);
    find(library, "cuGraphInstantiateWithFlags", d.instantiate);
    find(library, "cuGraphLaunch", d.launch_graph);
    find(library, "cuGraphExecDestroy", d.destroy_executable);
    find(library, "cuGraphDestroy", d.destroy_graph);
    return d;
  }();
  return it;
}

void check_driver(Driver::Result result, const char* function) {
  if (result != 0) {
    static const Functions functions = functions_of(dlopen(kDriverLibrary, RTLD_NOW | RTLD_LOCAL));
    ask(functions, function, result);
  }
}

}  // namespace mstrain::cuda
