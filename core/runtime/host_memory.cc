#include "core/runtime/host_memory.h"

#include "core/base/error.h"

namespace mstrain {

const std::shared_ptr<Allocator>& host_memory_of(Device& device) {
  auto* const has = dynamic_cast<DeviceWithHostMemory*>(&device);
  check(has != nullptr, "the device {} keeps nothing in the host's memory", device.name());
  return has->host_memory();
}

}  // namespace mstrain
