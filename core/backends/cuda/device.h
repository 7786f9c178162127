// A card as a device: its memory, two streams (kernels; copies between it and the host), pinned staging memory.
#pragma once

#include <memory>

#include "core/backends/cuda/driver.h"
#include "core/runtime/device.h"

namespace mstrain::cuda {

// The first card, opened when first asked for. Throws Error where there is none.
const std::shared_ptr<Device>& device();

// The stream of a queue of device().
Driver::Handle stream_of(Queue& queue);

// Binds device()'s context to the calling thread; cheap where it is bound.
void bind_context();

// Where kernels report bad values: an address for kernels.
void* report_address();

// Throws Error with what a kernel has reported since the last call, if anything.
void check_report();

}  // namespace mstrain::cuda
