// Memory of the host that a device works with beside its own: registered with it, so that its queues copy from and to it while
// kernels run. It is a device of its own, whose work is that of the other's queues: buffers in it carry events, and who reads them
// through the one door (core/tensor/host.h) waits.
#pragma once

#include "core/runtime/buffer.h"

namespace mstrain {

// A device that has such memory.
class DeviceWithHostMemory : public Device {
 public:
  virtual const std::shared_ptr<Allocator>& host_memory() = 0;
};

// Throws Error where `device` has none.
const std::shared_ptr<Allocator>& host_memory_of(Device& device);

}  // namespace mstrain
