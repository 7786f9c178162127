// Tensors in the host's memory beside the device of the current context (core/runtime/host_memory.h). Throws Error where the device
// has none.
#pragma once

#include "core/ir/tensor.h"

namespace mstrain {

Tensor uninitialised_in_host_memory(const TensorType& type);
// A dense copy of `x`, which lies on the device or there already.
Tensor on_host(const Tensor& x);

}  // namespace mstrain
